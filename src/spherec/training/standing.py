"""Where a run stands, beside its tables: what a checkpoint must know to go on in the middle of an epoch."""

from dataclasses import dataclass, field

from spherec.geometry import DenseVectors
from spherec.training.history import History


@dataclass
class Standing:
    """Counts of the epoch in progress, the epochs before it, and the best model so far."""

    pairs: int = 0
    "Pairs learned from in this epoch."
    places: int = 0
    "Places for negatives in this epoch: pairs with each of their negatives."
    seconds: float = 0.0
    "Spent in this epoch's steps."
    history: History = field(default_factory=History)
    "The epochs before."
    best: DenseVectors | None = None
    "The model after the best epoch, where there was a validation."

    def add(self, pairs: int, places: int, seconds: float) -> None:
        """Count a step."""
        self.pairs, self.places, self.seconds = self.pairs + pairs, self.places + places, self.seconds + seconds

    def begin_epoch(self) -> None:
        """Count from 0 again."""
        self.pairs, self.places, self.seconds = 0, 0, 0.0
