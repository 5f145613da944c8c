"""Models in a comparison: what each must be able to do, and how a model of your own takes part.

class Recent:
    name = "recent"

    def fit(self, train, settings, context):
        return self  # anything with top(users, k, without=None) -> Ranking

    def top(self, users, k, *, without=None): ...

spherec.lab.compare(data, ["accurate", Recent()], folder="results")
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, Protocol

import torch

from spherec.data.interactions import Interactions
from spherec.data.splits import Fold
from spherec.errors import ArgumentError
from spherec.evaluation import ItemLister
from spherec.geometry import DenseVectors
from spherec.lab.settings import Settings
from spherec.lab.trial import FittedModel

SearchValues = Mapping[str, Sequence[Any]]
"""Values to search for each setting; the first is the default."""


@dataclass(frozen=True)
class FitContext:
    """Arguments that all models are given alike."""

    k: int
    "Length of the lists."
    seed: int
    "Seed of everything random."
    device: torch.device
    "Device to compute on; models of libraries without a GPU stay on the CPU."
    on_epoch: Callable[[int, int], None] = lambda *_: None
    "Called with the number of epochs that are done, and of all."


class Baseline(Protocol):
    """A model of your own: a name and `fit`.

    Optional attributes: `search_space`, the values to search for each setting; `fixed`, plain data of all else that
    decides the result besides the code of the class, such as the version of a file that it reads; `check(train)`, which
    raises an error before long work if the model cannot be fit.
    """

    @property
    def name(self) -> str:
        """Name in tables."""
        ...

    def fit(self, train: Interactions, settings: Settings, context: FitContext) -> ItemLister:
        """Fit on these interactions; `settings` has one of its values for each setting of `search_space`."""
        ...


class ComparedModel(ABC):
    """A model in a comparison. By default it is fit in one go, one run at a time, and needs no validation part."""

    name: str
    is_ours = False
    runs_in_parallel = False
    "True if a GPU has room for several trials at a time."
    search_space: Mapping[str, Sequence[Any]] = {}
    fixed: Mapping[str, Any] = {}
    "All else that decides the result, as plain data."

    @property
    def has_choices(self) -> bool:
        """True if there is anything to choose on the validation part."""
        return any(len(values) > 1 for values in self.search_space.values())

    @property
    def fit_key(self) -> object:
        """Models of the same key are one fit that is asked in several ways; by default each is fit for itself."""
        return self.name

    @property
    def parts(self) -> tuple[object, ...]:
        """Objects whose code decides the result; a change of code that is not spherec's own makes it another model."""
        return (self,)

    def check(self, train: Interactions) -> None:  # noqa: B027, most take any data
        """Raise an error before long work if it cannot be fit: a package is missing, the data is too large."""

    def device_for(self, wanted: torch.device) -> torch.device:
        """Return where it computes if it may compute on `wanted`."""
        return wanted

    def versions(self) -> dict[str, str]:
        """Return the versions of the packages behind it that the environment does not name."""
        return {}

    def fit_validated(self, part: Fold, settings: Settings, context: FitContext) -> FittedModel:
        """Fit on one part for a trial; the other may decide how long."""
        return FittedModel(self.fit(part.train, settings, context))

    @abstractmethod
    def fit(self, train: Interactions, settings: Settings, context: FitContext) -> DenseVectors | ItemLister:
        """Fit on these interactions."""

    def ask(self, fitted: DenseVectors | ItemLister) -> DenseVectors | ItemLister:
        """Return what lists items, from a fit of a model of the same `fit_key`."""
        return fitted


class UserBaseline(ComparedModel):
    """A model of the user's own among the others."""

    def __init__(self, baseline: Baseline) -> None:
        self.baseline = baseline
        self.name = baseline.name
        self.search_space = getattr(baseline, "search_space", {})
        fields: dict[str, Any] = asdict(baseline) if is_dataclass(baseline) else {}
        self.fixed = {"kind": type(baseline).__qualname__, **fields, **getattr(baseline, "fixed", {})}

    @property
    def parts(self) -> tuple[object, ...]:
        """The baseline."""
        return (self.baseline,)

    def check(self, train: Interactions) -> None:
        """Ask the baseline, if it has a check."""
        if check := getattr(self.baseline, "check", None):
            check(train)

    def fit(self, train: Interactions, settings: Settings, context: FitContext) -> ItemLister:
        """Fit the baseline."""
        fitted = self.baseline.fit(train, settings, context)
        if not isinstance(fitted, DenseVectors) and not callable(getattr(fitted, "top", None)):
            raise ArgumentError(
                f"fit of {type(self.baseline).__name__} must return an object with top(users, k, without=None), such "
                f"as a ScoredRanker, got a {type(fitted).__name__}"
            )
        return fitted
