"""The history of a run: a record of each epoch."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class EpochRecord:
    """One pass over the training pairs."""

    epoch: int
    "Counted from 1."
    pairs: int
    "Pairs learned from."
    seconds: float
    "Time spent in this epoch's steps."
    loss: float
    "Mean loss over the pairs."
    active: float
    "Share of pairs with a negative inside the margin (hinge), or nearer than the positive (softmin)."
    masked: float
    "Share of places without a negative: none was found, or the item of a shared pool is one that the user has."
    triplets_per_second: float
    "Pairs with each of their negatives, in a second."
    metric: float | None = None
    "Validation metric after this epoch, if there was one; more is better."


@dataclass(frozen=True)
class History:
    """The epochs of a run so far."""

    epochs: tuple[EpochRecord, ...] = ()

    def with_epoch(self, record: EpochRecord) -> "History":
        """Return this history with one more epoch."""
        return History((*self.epochs, record))

    @property
    def best(self) -> EpochRecord | None:
        """The epoch with the best metric, the first of them; None without validation."""
        validated = [record for record in self.epochs if record.metric is not None]
        return max(validated, key=lambda record: record.metric or 0.0, default=None)

    def is_best(self) -> bool:
        """Tell whether the last epoch is the best so far."""
        return self.best is not None and self.best is self.epochs[-1]

    def should_stop(self, patience: int) -> bool:
        """Tell whether that many validations have passed without a new best."""
        best = self.best
        if best is None:
            return False
        later = [record for record in self.epochs if record.metric is not None and record.epoch > best.epoch]
        return len(later) >= patience

    def as_records(self) -> list[dict[str, Any]]:
        """Return plain data, one dictionary an epoch."""
        return [asdict(record) for record in self.epochs]

    @classmethod
    def from_records(cls, records: Sequence[dict[str, Any]]) -> "History":
        """Return the history that `as_records` wrote; raise a ValueError or a TypeError if it is another."""
        return cls(tuple(_check_record(EpochRecord(**record)) for record in records))


def _check_record(record: EpochRecord) -> EpochRecord:
    """Return the record if its counts are whole numbers and the rest are numbers."""
    for name, value in asdict(record).items():
        kinds = (int,) if name in ("epoch", "pairs") else (int, float)
        if type(value) not in kinds and (name, value) != ("metric", None):
            raise ValueError(f"{name} of an epoch is not a number")
    return record
