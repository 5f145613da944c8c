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
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any

import numpy as np
import torch

from spherec import rng
from spherec.data.features import Features
from spherec.data.interactions import Interactions
from spherec.data.splits import Fold
from spherec.errors import ArgumentError
from spherec.evaluation import ItemLister, Validation
from spherec.geometry import DenseVectors
from spherec.lab.records import Settings
from spherec.lab.runs import Cost, FittedModel, raise_if_interrupted, time_list, train_validated
from spherec.lab.search_space import apply_settings, flatten
from spherec.losses.softmin import temperature_for
from spherec.start import Random
from spherec.training import EpochRecord, History, Run, Trained, Training, join, train
from spherec.training.config import PRESETS

Progress = Callable[[EpochRecord, History], None]
SearchValues = Mapping[str, Sequence[Any]]
"""Values to search for each setting; the first is the default."""

FEATURED = "+features"
"""Ending of the name of a preset that learns from item features."""

TUNED = "+tuned"
"""Ending of the name of a preset whose settings are searched."""

_TEMPERATURE = "temperature_share"  # of the temperature that comes from the data
_SOFTMIN: SearchValues = {
    _TEMPERATURE: (1.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.2, 1.5),
    "optimizer.learning_rate": (1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 2e-2, 3e-2),
    "mainstream": (0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.2),
    "effort": (0.25, 0.5, 1.0, 2.0),
}

PRESET_SEARCHES: dict[str, SearchValues] = {
    "accurate": _SOFTMIN,
    "quick": {
        "start.catalogue_weight": (30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0),
        "start.regularization": (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1),
        "mainstream": (0.3, 0.4, 0.5, 0.6, 0.75, 1.0, 1.2),
    },
    "fast": _SOFTMIN,
    "two-stage": {
        "dim": (128, 256),
        "loss.margin": (0.5, 1.0, 1.5),
        "optimizer.learning_rate": (3e-4, 1e-3, 3e-3),
        "sampler.beta": (0.2, 0.4, 0.525, 0.7, 0.8),
        "sampler.sharpness": (0.0, 0.02, 0.05),
    },
}
"""Values to search for each tuned preset, besides its own, which come first. A preset itself is taken as it comes; with
a constant learning rate, epochs are chosen by early stopping in both."""

_TIMED_EPOCHS, _TIMED_STEPS = 3, 20


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
    epochs_in: str | None = None  # setting with the number of epochs, unless it is fit in one go
    costly: str | None = None  # setting to which the time of a fit is about proportional, besides its epochs

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

    def measure(self, part: Fold, settings: Settings, context: FitContext) -> Cost | None:
        """Measure the time of a fit, by a few epochs if it has some; None if it cannot be measured."""
        clock: list[float] = []
        look = replace(context, on_epoch=lambda *_: clock.append(time.perf_counter()))
        if self.epochs_in:
            settings = {**settings, self.epochs_in: _TIMED_EPOCHS}
            self.fit(part.train.filter(np.arange(len(part.train)) < 100), settings, context)  # compile first
        began = time.perf_counter()
        fitted = self.fit(part.train, settings, look)
        if context.device.type == "cuda":
            torch.cuda.synchronize(context.device)
        whole = time.perf_counter() - began
        epoch = (clock[-1] - clock[0]) / (_TIMED_EPOCHS - 1) if self.epochs_in else 0.0
        return Cost(max(whole - _TIMED_EPOCHS * epoch, 0), epoch, time_list(fitted, part, context.k))

    def count_epochs(self, settings: Settings, train: Interactions) -> tuple[int, int]:  # noqa: ARG002, ours need it
        """Return the number of epochs of a trial, at most, and how often its lists are made."""
        return (settings[self.epochs_in] if self.epochs_in else 0), 1


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

    def measure(self, *_: object) -> None:
        """Measure nothing: it is not known what a small piece of its work is."""


class OurModel(ComparedModel):
    """A config of spherec under a name: early stopping on the validation part, then as long on everything.

    `search` has the values to try for each setting. With `features` of the items, which a config with a schedule
    learns from, nothing is searched.
    """

    is_ours = True
    packages = ("numba",)
    costly = "dim"

    def __init__(
        self, name: str, config: Training, search: SearchValues | None = None, features: Features | None = None
    ) -> None:
        self.name, self.config, self.features = name, config, features
        if features is not None and config.optimizer.schedule == "constant":
            raise ArgumentError(
                f"{name} cannot be compared: its learning rate is constant, and models with features learn to the end "
                f"of a falling one; take accurate{FEATURED}"
            )
        own = flatten(config.to_dict())
        self.search_space = {
            path: tuple(dict.fromkeys((own.get(path, values[0]), *values)))
            for path, values in (search or {}).items()
            if path in (*own, _TEMPERATURE) and features is None
        }

    @classmethod
    def preset(cls, name: str, features: Features | None = None, *, tuned: bool = False) -> "OurModel":
        """Return the preset of this name, as it comes or tuned; with features, it learns from them."""
        ending = TUNED if tuned else "" if features is None else FEATURED
        return cls(f"{name}{ending}", PRESETS[name].training, PRESET_SEARCHES[name] if tuned else None, features)

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
        config = self.configure(settings, data, context.seed)
        epochs = config.plan(len(data)).epochs
        return config, lambda epoch, _: context.on_epoch(epoch.epoch, epochs)

    def configure(self, settings: Settings, data: Interactions, seed: int) -> Training:
        """Return the config with these settings and this seed."""
        settings, share = dict(settings), settings.get(_TEMPERATURE, 1.0)
        settings.pop(_TEMPERATURE, None)
        config = replace(apply_settings(self.config, settings), seed=seed)
        return (
            config
            if share == 1
            else config.change({"loss": {"temperature": share * temperature_for(data, config.dim)}})
        )

    def measure(self, part: Fold, settings: Settings, context: FitContext) -> Cost:
        """Measure the time of a step, by some on a few pairs, and of a start as a whole."""
        config, crew = self.configure(settings, part.train, context.seed), join(context.device)
        features = None if self.features is None else self.features.align(part.train.item_ids)

        def run(steps: int, **changes: Any) -> tuple[Trained, float]:
            every = max(len(part.train) // (steps * config.batch_size), 1)
            few = part.train.filter(np.arange(len(part.train)) % every == 0)
            began = time.perf_counter()
            trained = train(Run(few, replace(config, **changes), features=features, crew=crew))
            return raise_if_interrupted(trained), time.perf_counter() - began

        trained, start = run(_TIMED_STEPS, epochs=2, start=Random())
        compiling, epoch = trained.history.epochs
        start -= compiling.seconds + epoch.seconds
        if config.start != Random():
            run(1, epochs=0)
            trained, start = run(len(part.train), epochs=0)
        per_epoch = epoch.seconds * len(part.train) / epoch.pairs
        return Cost(start, per_epoch, time_list(trained.vectors, part, context.k))

    def count_epochs(self, settings: Settings, train: Interactions) -> tuple[int, int]:
        plan = self.configure(settings, train, 0).plan(len(train))
        return plan.epochs, 1 + plan.epochs // max(plan.validate_every, 1)


def versions_of(*parts: object) -> dict[str, str]:
    """Return the `version` of each of these objects that has one, such as a loss of your own, by its class."""
    versions = {f"version of {type(part).__name__}": getattr(part, "version", None) for part in parts}
    return {name: str(given) for name, given in versions.items() if given is not None}
