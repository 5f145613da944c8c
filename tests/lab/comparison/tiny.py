"""A comparison that takes a blink."""

import torch

from spherec.lab import Comparison, ComparisonPlan, FitContext
from spherec.lab.registry import find_models
from spherec.optim import Adam
from spherec.sampling import Uniform
from spherec.training import Training
from spherec.training.presets import PRESETS, Preset
from tests.sampling.checks import interactions, random_rows

CPU = torch.device("cpu")
DATA = interactions(random_rows(24, 20, 0.4))
TRAINING = Training(dim=4, sampler=Uniform(1), optimizer=Adam(0.05), batch_size=32, epochs=4, validate_every=1)
CONTEXT = FitContext(k=5, seed=0, device=CPU)


def tiny_preset(monkeypatch, name="two-stage", training=TRAINING):
    monkeypatch.setitem(PRESETS, name, Preset(training, "small"))


def plan(*models, **options):
    return ComparisonPlan(
        tuple(find_models(models)), **({"folds": 2, "k": 5, "trials": 2, "validation": 0.2} | options)
    )


def comparison(folder, *models, data=DATA, test=None, **options):
    return Comparison(plan(*models, **options), data, folder, test=test)
