"""Experiments and comparisons that take a blink: 24 users, 20 items."""

from dataclasses import replace

import torch

from spherec.data import splits
from spherec.lab import Comparison, ComparisonPlan, Experiment, FitContext, Reproduction, Result, Row, Trial
from spherec.lab.registry import find_models
from spherec.optim import Adam
from spherec.sampling import Popularity, Uniform
from spherec.training import Training
from spherec.training.config import PRESETS, Preset
from tests.sampling.checks import interactions, random_rows

CPU = torch.device("cpu")
DATA = interactions(random_rows(24, 20, 0.4))
TRAINING = Training(dim=4, sampler=Uniform(1), optimizer=Adam(0.05), batch_size=32, epochs=4, validate_every=1)
CONTEXT = FitContext(k=5, seed=0, device=CPU)
ROWS = (Row("uniform-1-32", TRAINING), Row("popularity-1-32", replace(TRAINING, sampler=Popularity(1))))
EXPERIMENT = Experiment(ROWS, name="tiny", folds=3, seed=7, k=5, validation=0.2)
ONE_ROW = EXPERIMENT.only(["uniform-1-32"])


def tiny_preset(monkeypatch, name="two-stage", training=TRAINING):
    monkeypatch.setitem(PRESETS, name, Preset(training, "small"))


def plan(*models, **options):
    return ComparisonPlan(
        tuple(find_models(models)), **({"folds": 2, "k": 5, "trials": 2, "validation": 0.2} | options)
    )


def comparison(folder, *models, data=DATA, test=None, **options):
    return Comparison(plan(*models, **options), data, folder, test=test)


def ran(records, experiment=EXPERIMENT, data=DATA, folds=None):
    reproduction = Reproduction(experiment, data, records.path, folds)
    results = reproduction.run(device=CPU)
    reproduction.raise_if_failed()
    return [result for result in results if result.fold in reproduction.folds]


def fold(index, data=DATA, experiment=EXPERIMENT):
    return splits.k_fold(data, experiment.folds, seed=experiment.seed)[index]


def pairs_of(data):
    return set(zip(data.users.tolist(), data.indices.tolist(), strict=True))


def record(row="uniform-1-4096", fold=0, epochs=3, choosing=1.0, training=2.0, metrics=(0.1, 0.2), **scores):
    """A record as a run would leave it."""
    curve = [
        {"epoch": epoch, "loss": 1 / epoch, "metric": metric} for epoch, metric in enumerate((None, *metrics), start=1)
    ]
    return Result(
        "tiny",
        row,
        fold,
        {"data": "1234"},
        {"epochs": epochs},
        [Trial({}, {"ndcg": 0.05}, epochs)],
        {"map": 0.01, "ndcg": 0.04, "mmr": 50.0} | scores,
        {"choosing": choosing, "training": training, "testing": 100.0},
        {"commit": "abc"},
        curve=curve,
        digest="00ff00ff",
    )
