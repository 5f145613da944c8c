"""Our presets among the contenders: early stopping on the validation part, then as many epochs on everything."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from importlib.metadata import version
from typing import Any

import torch

from spherec.compare.contender import How, Settings, Space
from spherec.data.interactions import Interactions
from spherec.data.splits import Fold
from spherec.experiments.runner import best_epochs, validated, whole
from spherec.geometry import DenseVectors
from spherec.nested import nest, overlay
from spherec.training import EpochRecord, History, Training, train
from spherec.training.presets import PRESETS

EPOCHS = "epochs"
"""Chosen by early stopping, so it is no setting to search."""

_RATES = (3e-4, 1e-3, 3e-3)
_BETAS = (0.2, 0.4, 0.525, 0.7, 0.8)
SEARCHED: dict[str, Space] = {
    # By the kind of the loss. A preset's own value of a setting comes first, by itself.
    "Softmin": {
        "dim": (128, 256),
        "loss.temperature": (0.05, 0.07, 0.1, 0.15, 0.2),
        "optimizer.learning_rate": _RATES,
    },
    "Hinge": {
        "dim": (128, 256),
        "loss.margin": (0.5, 1.0, 1.5),
        "optimizer.learning_rate": _RATES,
    },
    # By the kind of the sampler, beside those of the loss.
    "TwoStage": {"sampler.beta": _BETAS, "sampler.sharpness": (0.0, 0.02, 0.05)},
    "Popularity": {"sampler.beta": (0.2, 0.4, 0.6, 0.8)},
}
"""Values worth a trial, by dotted names as `spherec train --set` takes them."""

_DIAL: Space = {"loss.temperature": (0.07, 0.09, 0.11)}  # γ is what tells the three apart
SEARCHED_BY_PRESET: dict[str, Space] = {
    "accurate": {**_DIAL, "sampler.negatives": (2000, 4000)},
    "balanced": _DIAL,
    "niche": {},  # the most accurate would be the least niche
    # What the paper's text says and what its code does stay what they are.
    "two-stage-as-written": {"optimizer.learning_rate": _RATES, "sampler.beta": _BETAS},
    "two-stage-as-released": {"optimizer.learning_rate": _RATES, "sampler.beta": _BETAS},
}
"""Instead of those, for presets by name."""


@dataclass(frozen=True)
class Ours:
    """A preset of spherec."""

    name: str
    training: Training

    is_ours = True
    at_once = True

    @classmethod
    def preset(cls, name: str) -> "Ours":
        """The one of this name."""
        return cls(name, PRESETS[name].training)

    @property
    def space(self) -> Space:
        """Each setting with the preset's own value first."""
        described = self.training.to_dict()
        loss, sampler = (described[part]["kind"] for part in ("loss", "sampler"))
        values = SEARCHED_BY_PRESET.get(self.name, {**SEARCHED.get(loss, {}), **SEARCHED.get(sampler, {})})
        own = {path: reduce(lambda table, part: table[part], path.split("."), described) for path in values}
        return {path: (own[path], *(one for one in some if one != own[path])) for path, some in values.items()}

    @property
    def is_settled(self) -> bool:
        """Whether there is one value of each setting, and a schedule that is run to its end."""
        one_each = all(len(values) == 1 for values in self.space.values())
        return one_each and self.training.optimizer.schedule != "constant"

    @property
    def base(self) -> Mapping[str, Any]:
        """The whole config; the seed is the comparison's. A schedule is judged at its end, which was not always so."""
        base = {name: value for name, value in self.training.to_dict().items() if name != "seed"}
        return base if self.training.optimizer.schedule == "constant" else {**base, "judged": "at the end"}

    def refuse(self, train_part: Interactions) -> None:
        """It takes any data and needs no package."""

    def device(self, wanted: torch.device) -> torch.device:
        """As wanted."""
        return wanted

    def versions(self) -> dict[str, str]:
        """Of what compiles its loops."""
        return {"numba": version("numba")}

    def tried(self, part: Fold, settings: Settings, how: How) -> tuple[DenseVectors, Settings]:
        """With early stopping; the epochs after which it was best join the settings."""
        training = self._configured(settings, how)
        trained = validated(part, training, k=how.k, device=how.device, progress=_told(how, training, len(part.train)))
        return trained.vectors, {**settings, EPOCHS: best_epochs(trained.history)}

    def fit(self, train_part: Interactions, settings: Settings, how: How) -> DenseVectors:
        """For the epochs among the settings."""
        training = self._configured(settings, how)
        progress = _told(how, training, len(train_part))
        return whole(train(train_part, training, device=how.device, progress=progress)).vectors

    def _configured(self, settings: Settings, how: How) -> Training:
        changes = [nest(path, value) for path, value in settings.items()]
        return replace(self.training.change(reduce(overlay, changes, {})), seed=how.seed)


def _told(how: How, training: Training, pairs: int) -> Any:
    epochs = training.plan(pairs).epochs

    def progress(epoch: EpochRecord, _: History) -> None:
        how.told(epoch.epoch, epochs)

    return progress
