"""Dense Adam at sparse cost: every row moves at every step, but is only computed when it is read.

Dense Adam lets the moments of all rows decay at every step and moves all rows by them, also those without a gradient.
A row that was last touched at step l, with moments m and v, has by step l + g

    m ← β₁^g m        v ← β₂^g v        moved by −lr · m/√v · (A(l) − r^g · A(l + g))

with r = β₁/√β₂, c_s = √(1 − β₂^s)/(1 − β₁^s) and A(s) = Σ_{k≥1} r^k c_{s+k}, a table that is filled backwards by
A(s) = r · (c_{s+1} + A(s + 1)).

That is without Adam's ε. Next to √v, which decays and is not corrected for its beginning at 0, ε stands in the k-th
missed step as ε · √(1 − β₂^{l+k}) · β₂^{−k/2}. Its mean over the missed steps, weighted as they are, is added to √v:
exact to first order in ε/√v. A second table, B(s) = Σ_{k≥1} (β₁/β₂)^k c_{s+k} √(1 − β₂^{s+k}), gives that mean.

A learning rate that changes from step to step needs nothing more: c_s is multiplied by its share of lr at step s, and
the tables are as long as the run.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.device import make_table
from spherec.errors import ArgumentError, check_choice, check_number
from spherec.geometry import Constraint
from spherec.kernels import backend
from spherec.kernels.protocol import AdamRates, AdamState
from spherec.kernels.reference.adam import ReferenceRows

Schedule = Literal["constant", "cosine"]
"""constant: the learning rate stays. cosine: it falls along half a cosine, to 0 when the run ends."""

_LARGEST_BETA = 0.99999  # the tables below have about 37 / (1 - β₂) entries


@dataclass(frozen=True)
class Adam:
    """Kingma and Ba, Adam (ICLR 2015)."""

    learning_rate: float = 1e-3
    "Learning rate, lr."
    beta1: float = 0.9
    "β₁, share of the mean gradient that is kept at each step."
    beta2: float = 0.999
    "β₂, share of the mean squared gradient that is kept at each step; more than β₁."
    epsilon: float = 1e-8
    "ε, added to the root of the mean squared gradient."
    schedule: Schedule = "constant"
    "Course of the learning rate: it stays, or falls along half a cosine, to 0 at the last of the planned epochs."

    def __post_init__(self) -> None:
        check_number("learning_rate", self.learning_rate, 1e-12, 1, "0.001")
        check_number("epsilon", self.epsilon, 1e-100, 1, "1e-8")
        for name in ("beta1", "beta2"):
            check_number(name, getattr(self, name), 0, 1)
        if not 0 <= self.beta1 < self.beta2 <= _LARGEST_BETA:
            raise ArgumentError(
                f"beta1 must be >= 0 and below beta2, and beta2 at most {_LARGEST_BETA}, got {self.beta1} and "
                f"{self.beta2}; 0.9 and 0.999 are usual"
            )
        check_choice("schedule", self.schedule, get_args(Schedule))


def start_adam(
    table: Tensor, config: Adam, *, constraint: Constraint = "sphere", planned: int = 1
) -> tuple[AdamState, ReferenceRows]:
    """Return Adam's state for one table (n, D), and the rows of the table, which it changes in place.

    The table itself is behind: the rows are read as they are by now. In the ball, those that have moved out are scaled
    back whenever they are read or moved. `planned` is the number of steps that a schedule spans.
    """
    device = table.device
    last = torch.zeros(len(table), dtype=torch.int64, device=device)
    steps = torch.zeros(1, dtype=torch.int64, device=device)
    mean, square = (make_table(table.shape, device) for _ in range(2))
    state = AdamState(table, mean, square, last, steps)
    spanned = max(planned, 1) if config.schedule == "cosine" else None
    sums = (torch.tensor(values, device=device) for values in _make_tables(config.beta1, config.beta2, spanned))
    rates = AdamRates(config.learning_rate, config.epsilon, config.beta1, config.beta2, *sums)
    return state, backend(device).adam(state, rates, ball=constraint == "ball")


@lru_cache(maxsize=1)  # they take longer than a small run
def _make_tables(beta1: float, beta2: float, spanned: int | None) -> tuple[NDArray[np.float64], ...]:
    """Return c_s, A(s) and B(s) for s = 0, 1, … until none of them changes any more; c_0 is not used.

    The learning rate falls along half a cosine over the spanned steps, or is constant.
    """
    unsettled = int(np.ceil(np.log(1e-16) / np.log(beta2))) + 1  # steps after which the corrections stay
    s = np.arange(1, max(unsettled, spanned or 0) + 1)
    shares = np.ones(len(s))  # (S,) of the learning rate that are left
    if spanned is not None:
        done = np.minimum(s - 1, spanned - 1) / spanned  # (S,) after the planned end, that at it
        shares = (1 + np.cos(np.pi * done)) / 2
    correction = np.sqrt(1 - beta2**s) / (1 - beta1**s) * shares  # (S,)
    correction = np.concatenate(([1.0], correction))  # (S + 1,)
    epsilon = np.concatenate(([0.0], np.sqrt(1 - beta2**s)))  # (S + 1,)
    ahead = _sum_ahead(beta1 / beta2**0.5, correction)
    return correction, ahead, _sum_ahead(beta1 / beta2, correction * epsilon)


def _sum_ahead(ratio: float, terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Σ_{k≥1} ratio^k terms[s + k] for each s (S + 1,); the last term repeats without end."""
    last = terms[-1] * ratio / (1 - ratio)
    # The recurrence, backwards. scipy.signal has it compiled, and takes longer to import than this does.
    sums = accumulate(terms[:0:-1].tolist(), lambda ahead, term: ratio * term + ratio * ahead, initial=last)
    return np.array(list(sums))[::-1].copy()
