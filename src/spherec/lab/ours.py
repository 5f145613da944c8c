"""Presets and configs of spherec in a comparison: early stopping on the validation part, then as long on everything."""

import json
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from spherec.data.interactions import Interactions
from spherec.data.splits import Fold
from spherec.evaluation import ItemLister
from spherec.geometry import DenseVectors
from spherec.lab.model import ComparedModel, FitContext, SearchValues
from spherec.lab.search_space import default_search
from spherec.lab.settings import Settings, apply_settings, flatten
from spherec.lab.trial import FittedModel, raise_if_interrupted, train_validated
from spherec.training import EpochRecord, History, Training, train
from spherec.training.presets import PRESETS

_RATES = (3e-4, 1e-3, 3e-3)
_BETAS = (0.2, 0.4, 0.525, 0.7, 0.8)
_HINGE: SearchValues = {
    "dim": (128, 256),
    "loss.margin": (0.5, 1.0, 1.5),
    "optimizer.learning_rate": _RATES,
}
PRESET_SEARCHES: dict[str, SearchValues] = {
    "accurate": {},  # takes its temperature from the data, and runs to the end of its schedule
    "fast": {},
    "two-stage": {**_HINGE, "sampler.beta": _BETAS, "sampler.sharpness": (0.0, 0.02, 0.05)},
}
"""Values to search for each preset, besides its own, which come first. Epochs are chosen by early stopping."""


class OurModel(ComparedModel):
    """A config of spherec under a name. Without `search`, the values come from its loss and its sampler."""

    is_ours = True
    runs_in_parallel = True

    def __init__(self, name: str, config: Training, search: SearchValues | None = None) -> None:
        self.name = name
        self.config = config
        own = flatten(config.to_dict())
        values = {path: domain.grid() for path, domain in default_search(config).items()} if search is None else search
        self.search_space = {
            path: (own[path], *(value for value in some if value != own[path]))
            for path, some in values.items()
            if path in own
        }

    @classmethod
    def preset(cls, name: str) -> "OurModel":
        """Return the preset of this name."""
        return cls(name, PRESETS[name].training, PRESET_SEARCHES.get(name))

    @property
    def has_choices(self) -> bool:
        """True if there are settings or epochs to choose; a learning rate that falls is run to the end."""
        return super().has_choices or self.config.optimizer.schedule == "constant"

    @property
    def fit_key(self) -> object:
        """The config without its dial, which is turned after training; the name if there is anything to choose."""
        if self.has_choices:
            return self.name
        config = self.config
        return type(config.loss), type(config.sampler), json.dumps(replace(config, mainstream=1.0).to_record())

    def ask(self, fitted: DenseVectors | ItemLister) -> DenseVectors | ItemLister:
        """Turn the dial."""
        return replace(fitted, mainstream=self.config.mainstream) if isinstance(fitted, DenseVectors) else fitted

    @property
    def fixed(self) -> Mapping[str, Any]:  # type: ignore[override]
        """The whole config, except the seed: that is the comparison's."""
        return {name: value for name, value in self.config.to_record().items() if name != "seed"}

    @property
    def parts(self) -> tuple[object, ...]:
        """The model, its loss and its sampler."""
        return self, self.config.loss, self.config.sampler

    def versions(self) -> dict[str, str]:
        """Return the version of numba, which compiles its loops."""
        return {"numba": version("numba")}

    def fit_validated(self, part: Fold, settings: Settings, context: FitContext) -> FittedModel:
        """Train with early stopping."""
        config = self.configure(settings, context)
        progress = _Progress(context, config, len(part.train))
        return train_validated(part, config, k=context.k, device=context.device, progress=progress)

    def fit(self, train_part: Interactions, settings: Settings, context: FitContext) -> DenseVectors:
        """Train for the epochs among the settings."""
        config = self.configure(settings, context)
        progress = _Progress(context, config, len(train_part))
        return raise_if_interrupted(train(train_part, config, device=context.device, progress=progress)).vectors

    def configure(self, settings: Settings, context: FitContext) -> Training:
        """Return the config with these settings and the comparison's seed."""
        return replace(apply_settings(self.config, settings), seed=context.seed)


class _Progress:
    """Passes epochs on to the context."""

    def __init__(self, context: FitContext, config: Training, pairs: int) -> None:
        self._context = context
        self._epochs = config.plan(pairs).epochs

    def __call__(self, epoch: EpochRecord, _: History) -> None:
        self._context.on_epoch(epoch.epoch, self._epochs)
