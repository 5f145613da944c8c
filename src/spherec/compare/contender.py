"""What a comparison asks of a model: values of its settings to search, and to be fit with some of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch

from spherec.data.interactions import Interactions
from spherec.data.splits import Fold
from spherec.evaluation import ItemLister
from spherec.geometry import DenseVectors

Settings = Mapping[str, Any]
"""A value for each setting."""

Space = Mapping[str, Sequence[Any]]
"""The values to search of each setting; the first is the default."""


@dataclass(frozen=True)
class How:
    """What all models are told alike."""

    k: int
    "Length of the lists."
    seed: int
    "Of everything random."
    device: torch.device
    "Where to compute; models of libraries that know no GPU stay on the CPU."
    told: Callable[[int, int], None] = lambda *_: None
    "Called with how many epochs are done, and of how many."


class Contender(Protocol):
    """A model that is compared with others."""

    @property
    def name(self) -> str:
        """As `--models` has it."""
        ...

    @property
    def is_ours(self) -> bool:
        """Whether it is a preset of spherec; all others are peers."""
        ...

    @property
    def space(self) -> Space:
        """What is searched."""
        ...

    @property
    def base(self) -> Mapping[str, Any]:
        """All else that decides the result, as plain data."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to choose on the validation part."""
        ...

    @property
    def at_once(self) -> bool:
        """Whether a GPU has room for several trials at a time."""
        ...

    def refuse(self, train: Interactions) -> None:
        """Raise an error where it cannot be fit here: a package is missing, the data is too large. Before long work."""
        ...

    def device(self, wanted: torch.device) -> torch.device:
        """Where it computes if it may compute there."""
        ...

    def versions(self) -> dict[str, str]:
        """Of the packages behind it."""
        ...

    def tried(self, part: Fold, settings: Settings, how: How) -> tuple[DenseVectors | ItemLister, Settings]:
        """Fit on the one part, knowing the other; with the settings to fit it again, epochs among them where chosen."""
        ...

    def fit(self, train: Interactions, settings: Settings, how: How) -> DenseVectors | ItemLister:
        """Fit on all of these."""
        ...


class Peer(ABC):
    """What most peers share: they are fit in one go, one at a time, and look at no validation part."""

    is_ours = False
    at_once = False
    base: Mapping[str, Any] = {}
    space: ClassVar[Space] = {}

    @property
    def is_settled(self) -> bool:
        """Whether there is one value of each setting."""
        return all(len(values) == 1 for values in self.space.values())

    def refuse(self, train: Interactions) -> None:  # noqa: B027, some have nothing to refuse
        """It takes any data and needs no package."""

    def device(self, wanted: torch.device) -> torch.device:
        """As wanted."""
        return wanted

    def versions(self) -> dict[str, str]:
        """Those of the environment say all."""
        return {}

    def tried(self, part: Fold, settings: Settings, how: How) -> tuple[ItemLister, Settings]:
        """Fit on the training part; the settings stay as they are."""
        return self.fit(part.train, settings, how), settings

    @abstractmethod
    def fit(self, train: Interactions, settings: Settings, how: How) -> ItemLister:
        """Fit on all of these."""
