"""Models in a comparison: what each must be able to do, ours, and how a model of your own takes part.

class Recent:
    name = "recent"

    def fit(self, train, settings, context):
        return self  # anything with top(users, k, without=None) -> Ranking

    def top(self, users, k, *, without=None): ...

spherec.lab.compare(data, ["accurate", Recent()], folder="results")

Optional attributes: `search_space`, the values to search for each setting, of which `settings` has one each; `version`,
to be changed when the code is, so that the model is run again; `fixed`, plain data of all else that decides the result,
such as the version of a file; `check(train)`, which raises an error before long work if the model cannot be fit.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any

import torch

from spherec import rng
from spherec.data.features import Features
from spherec.data.interactions import Interactions
from spherec.data.splits import Fold
from spherec.errors import ArgumentError
from spherec.evaluation import ItemLister, Validation
from spherec.geometry import DenseVectors
from spherec.lab.records import Settings
from spherec.lab.runs import FittedModel, raise_if_interrupted, train_validated
from spherec.lab.search_space import apply_settings, default_search, flatten
from spherec.training import EpochRecord, History, Run, Training, join, train
from spherec.training.config import PRESETS

Progress = Callable[[EpochRecord, History], None]
SearchValues = Mapping[str, Sequence[Any]]
"""Values to search for each setting; the first is the default."""

FEATURED = "+features"
"""Ending of the name of a preset that learns from item features."""

PRESET_SEARCHES: dict[str, SearchValues] = {
    "accurate": {},  # takes its temperature from the data, and runs to the end of its schedule
    "fast": {},
    "quick": {},
    "two-stage": {
        "dim": (128, 256),
        "loss.margin": (0.5, 1.0, 1.5),
        "optimizer.learning_rate": (3e-4, 1e-3, 3e-3),
        "sampler.beta": (0.2, 0.4, 0.525, 0.7, 0.8),
        "sampler.sharpness": (0.0, 0.02, 0.05),
    },
}
"""Values to search for each preset, besides its own, which come first. Epochs are chosen by early stopping."""


@dataclass(frozen=True)
class FitContext:
    """Arguments that all models are given alike."""

    k: int  # length of the lists
    seed: int
    device: torch.device
    on_epoch: Callable[[int, int], None] = lambda *_: None  # called with the numbers of epochs: done, and of all


class ComparedModel(ABC):
    """A model in a comparison. By default it is fit in one go, one run at a time, and needs no validation part."""

    name: str
    is_ours = False  # a model of spherec, of which a GPU runs several trials at a time
    on_cpu = False  # a library without a GPU
    packages: tuple[str, ...] = ()  # whose versions are recorded
    search_space: Mapping[str, Sequence[Any]] = {}
    fixed: Mapping[str, Any] = {}
    "All else that decides the result, as plain data."
    tries_all = False
    "True for a model of few settings, of which none is left out by chance: `trials` does not limit them."
    mmr_at_most: float | None = None
    "Upper limit on validation MMR; settings above it are chosen only if all are."

    @property
    def has_choices(self) -> bool:
        """True if there is anything to choose on the validation part."""
        return any(len(values) > 1 for values in self.search_space.values())

    def draw(self, trials: int, *, seed: int, fold: int) -> list[dict[str, Any]]:
        """Draw settings to try on a fold at random, the default first and none twice; all of them if they are fewer.

        What is drawn for one model and fold does not depend on any other.
        """
        size = math.prod(map(len, self.search_space.values()))
        trials = size if self.tries_all else trials
        others = rng.stream(seed, f"settings of {self.name}", fold).permutation(size - 1)[: trials - 1] + 1
        drawn = []
        for number in (0, *others.tolist()):  # of the combination, the default first
            drawn.append(chosen := dict[str, Any]())
            for setting, values in self.search_space.items():
                number, at = divmod(number, len(values))
                chosen[setting] = values[at]
        return drawn

    def check(self, train: Interactions) -> None:  # noqa: B027, most take any data
        """Raise an error before long work if it cannot be fit: a package is missing, the data is too large."""

    def fit_validated(self, part: Fold, settings: Settings, context: FitContext) -> FittedModel:
        """Fit on one part for a trial; the other may decide how long."""
        return FittedModel(self.fit(part.train, settings, context))

    @abstractmethod
    def fit(self, train: Interactions, settings: Settings, context: FitContext) -> DenseVectors | ItemLister:
        """Fit on these interactions."""


class UserBaseline(ComparedModel):
    """A model of the user's own among the others: an object with `name` and `fit(train, settings, context)`."""

    def __init__(self, baseline: Any) -> None:
        self.baseline = baseline
        self.name = baseline.name
        self.search_space = getattr(baseline, "search_space", {})
        fields: dict[str, Any] = asdict(baseline) if is_dataclass(baseline) else {}  # type: ignore[arg-type]
        own = getattr(baseline, "fixed", {})
        self.fixed = {"kind": type(baseline).__qualname__, **fields, **versions_of(baseline), **own}

    def check(self, train: Interactions) -> None:
        getattr(self.baseline, "check", lambda _: None)(train)

    def fit(self, train: Interactions, settings: Settings, context: FitContext) -> ItemLister:
        fitted: ItemLister = self.baseline.fit(train, settings, context)
        if not isinstance(fitted, DenseVectors) and not callable(getattr(fitted, "top", None)):
            raise ArgumentError(
                f"fit of {type(self.baseline).__name__} must return an object with top(users, k, without=None), such "
                f"as a ScoredRanker, got a {type(fitted).__name__}"
            )
        return fitted


class OurModel(ComparedModel):
    """A config of spherec under a name: early stopping on the validation part, then as long on everything.

    Without `search`, the values come from its loss and its sampler. With `features` of the items, which a config with
    a schedule learns from, nothing is searched.
    """

    is_ours = True
    packages = ("numba",)

    def __init__(
        self, name: str, config: Training, search: SearchValues | None = None, *, features: Features | None = None
    ) -> None:
        self.name, self.config, self.features = name, config, features
        if features is not None and config.optimizer.schedule == "constant":
            raise ArgumentError(
                f"{name} cannot be compared: its learning rate is constant, and models with features learn to the end "
                f"of a falling one; take accurate{FEATURED}"
            )
        if search is None:
            search = {path: domain.grid() for path, domain in default_search(config).items()}
        own = flatten(config.to_dict())
        self.search_space = {
            path: (own[path], *(value for value in values if value != own[path]))
            for path, values in search.items()
            if path in own and features is None
        }

    @classmethod
    def preset(cls, name: str, features: Features | None = None) -> "OurModel":
        """Return the preset of this name; with features, it learns from them."""
        ending = "" if features is None else FEATURED
        return cls(f"{name}{ending}", PRESETS[name].training, PRESET_SEARCHES.get(name), features=features)

    @property
    def has_choices(self) -> bool:
        """True if there are settings or epochs to choose; a learning rate that falls is run to the end."""
        return super().has_choices or self.config.optimizer.schedule == "constant"

    @property
    def fixed(self) -> Mapping[str, Any]:  # type: ignore[override]
        """The whole config, except the seed, which is the comparison's, and the features."""
        known = {name: value for name, value in self.config.to_record().items() if name != "seed"}
        known |= versions_of(self.config.loss, self.config.sampler)
        return known if self.features is None else {**known, "features": self.features.fingerprint}

    def check(self, train: Interactions) -> None:
        if self.features is not None:
            self.features.align(train.item_ids)

    def fit_validated(self, part: Fold, settings: Settings, context: FitContext) -> FittedModel:
        config, progress = self._prepare(part.train, settings, context)
        validate = Validation(part.train, part.test, k=context.k)
        return train_validated(part, config, device=context.device, validate=validate, progress=progress)

    def fit(self, train_part: Interactions, settings: Settings, context: FitContext) -> DenseVectors:
        config, progress = self._prepare(train_part, settings, context)
        features = None if self.features is None else self.features.align(train_part.item_ids)
        run = Run(train_part, config, features=features, crew=join(context.device))
        return raise_if_interrupted(train(run, progress=progress)).vectors

    def _prepare(self, data: Interactions, settings: Settings, context: FitContext) -> tuple[Training, Progress]:
        """Return the config and a callback that passes epochs on to the context."""
        config = self.configure(settings, context)
        epochs = config.plan(len(data)).epochs
        return config, lambda epoch, _: context.on_epoch(epoch.epoch, epochs)

    def configure(self, settings: Settings, context: FitContext) -> Training:
        """Return the config with these settings and the comparison's seed."""
        return replace(apply_settings(self.config, settings), seed=context.seed)


def versions_of(*parts: object) -> dict[str, str]:
    """Return the `version` of each of these objects that has one, such as a loss of your own, by its class."""
    versions = {f"version of {type(part).__name__}": getattr(part, "version", None) for part in parts}
    return {name: str(given) for name, given in versions.items() if given is not None}
