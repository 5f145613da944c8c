"""What a study has found, as plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from spherec.training import EpochRecord, History, Training
from spherec.tuning.goal import Goal
from spherec.tuning.search import Value

State = Literal["complete", "pruned", "failed"]
Reason = Literal["all trials done", "out of time", "interrupted"]


@dataclass(frozen=True)
class Tried:
    """One trial that has ended."""

    number: int
    "Counted from 0."
    state: State
    "Whether it ended by itself, was ended as poor, or could not be trained."
    values: Mapping[str, Value]
    "Of the fields that are searched."
    value: float | None
    "The best of the validation metric; None where it failed."
    epoch: int | None
    "After which that was reached."
    mmr: float | None
    "Of that epoch's lists."
    seconds: float
    why: str | None = None
    "What went wrong, where it failed."

    def described(self) -> dict[str, Any]:
        """For a script."""
        return asdict(self)


@dataclass(frozen=True)
class Tuned:
    """What is known when a call ends; another may go on."""

    best: Tried | None
    "The winner; None as long as no trial has come to its end."
    config: Training | None
    "The winner's config."
    tried: Sequence[Tried]
    "All trials of the study, of earlier calls too, in the order of their numbers."
    ended: Reason
    "Why this call ended."
    importance: Mapping[str, float] = field(default_factory=dict)
    "How much of the difference between good and other trials each field explains; empty where trials are few or alike."


def best_of(tried: Sequence[Tried], goal: Goal) -> Tried | None:
    """The most accurate within the limit on MMR; where all are above it, the least popular. Of equals, the first."""
    done = [one for one in tried if one.state == "complete" and one.value is not None]
    within = [one for one in done if goal.allows(one.mmr)]
    if within:
        return max(within, key=lambda one: one.value or 0.0)
    return min(done, key=lambda one: one.mmr or 0.0, default=None)


class Watcher:
    """Told how the study goes; this one does not care."""

    def going(self, number: int, epoch: EpochRecord, history: History) -> None:
        """A trial has come so far."""

    def ended(self, tried: Sequence[Tried], last: Tried) -> None:
        """A trial has ended, the last of those tried."""
