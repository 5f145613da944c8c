"""Dense Adam at sparse cost: every row moves at every step, but is only computed when it is read.

Dense Adam lets the moments of all rows decay at every step and moves all rows by them, also those without a gradient.
A row that was last touched at step l, with moments m and v, has by step l + g

    m ← β₁^g m        v ← β₂^g v        moved by −lr · m/√v · (A(l) − r^g · A(l + g))

with r = β₁/√β₂, c_s = √(1 − β₂^s)/(1 − β₁^s) and A(s) = Σ_{k≥1} r^k c_{s+k}, a table that is filled backwards by
A(s) = r · (c_{s+1} + A(s + 1)).

That is without Adam's ε. Beside √v, which decays and is not corrected for its beginning at 0, ε stands in the k-th
missed step as ε · √(1 − β₂^{l+k}) · β₂^{−k/2}. Its mean over the missed steps, weighted as they are, is added to √v:
exact to first order in ε/√v. A second table, B(s) = Σ_{k≥1} (β₁/β₂)^k c_{s+k} √(1 − β₂^{s+k}), gives that mean.

A learning rate that changes from step to step needs nothing more: c_s is multiplied by its share of lr at step s, and
the tables are as long as the run.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.signal import lfilter
from torch import Tensor
from torch.nn.functional import embedding_bag

from spherec.errors import ArgumentError
from spherec.geometry import Constraint, project, to_vectors
from spherec.kernels import adam, cuda

Schedule = Literal["constant", "cosine"]
"""constant: the learning rate stays. cosine: it falls along half a cosine, to nothing when the run ends."""

_LARGEST_BETA = 0.99999  # the tables below have about 37 / (1 - β₂) entries
_SHORT_GAP = 4096  # steps; for longer gaps powers are computed anew


@dataclass(frozen=True)
class Adam:
    """Kingma and Ba, Adam (ICLR 2015)."""

    learning_rate: float = 1e-3
    "lr"
    beta1: float = 0.9
    "β₁, how much of the mean gradient is kept at each step."
    beta2: float = 0.999
    "β₂, how much of the mean squared gradient is kept at each step; more than β₁."
    epsilon: float = 1e-8
    "ε, added to the root of the mean squared gradient."
    schedule: Schedule = "constant"
    "How the learning rate goes on: stays, or falls along half a cosine, to nothing at the last of the planned epochs."

    def __post_init__(self) -> None:
        if not 0 < self.learning_rate <= 1:
            raise ArgumentError(f"learning_rate must be > 0 and <= 1, got {self.learning_rate}; 0.001 is usual")
        if not 0 <= self.beta1 < self.beta2 <= _LARGEST_BETA:
            raise ArgumentError(
                f"beta1 must be >= 0 and below beta2, and beta2 at most {_LARGEST_BETA}, got {self.beta1} and "
                f"{self.beta2}; 0.9 and 0.999 are usual"
            )
        if not 0 < self.epsilon < float("inf"):
            raise ArgumentError(f"epsilon must be > 0, got {self.epsilon}")
        if self.schedule not in get_args(Schedule):
            raise ArgumentError(f"schedule must be 'constant' or 'cosine', got {self.schedule!r}")


class DenseAdam:
    """Adam on the rows of one table (n, D), which it changes in place.

    The table itself is behind: `rows` tells what some rows are by now, `everything` what all are. Reading changes
    nothing. In the ball, rows that have moved out are scaled back whenever they are read or moved. `planned` is how
    many steps a schedule spans.
    """

    def __init__(
        self,
        table: Tensor,
        config: Adam,
        *,
        constraint: Constraint = "sphere",
        planned: int = 1,
        compiled: bool | None = None,
    ) -> None:
        self.config = config
        self.constraint = constraint
        self.table = table  # (n, D) each row as of its own last step
        self.mean = torch.zeros_like(table)  # (n, D) m
        self.square = torch.zeros_like(table)  # (n, D) v
        self.last = torch.zeros(len(table), dtype=torch.int64, device=table.device)  # (n,) l
        # A tensor, for reading a number from a GPU would mean waiting for it.
        self.steps = torch.zeros(1, dtype=torch.int64, device=table.device)
        self._correction, self._ahead, self._ahead_epsilon = (
            torch.tensor(one, device=table.device) for one in _tables(config, planned)
        )
        # Compiled loops do the same without a temporary for every operation: numba's on a CPU, Triton's on a GPU.
        self._triton = cuda.kernels("adam", table.device) if compiled is not False else None
        self._compiled = table.device.type == "cpu" and not self._triton if compiled is None else compiled
        if self._triton:
            rates = self._triton.rates(config.learning_rate, config.epsilon, config.beta1, config.beta2)
            tables = rates.to(table.device), self._correction, self._ahead, self._ahead_epsilon
            self._state = self._triton.State(*self._parts(), self.steps, *tables)
        self._longest = float("inf") if constraint == "sphere" else 1.0

    def state(self) -> dict[str, Tensor]:
        """All that another run needs to go on exactly from here; views, not copies."""
        return {"table": self.table, "mean": self.mean, "square": self.square, "last": self.last, "steps": self.steps}

    def rows(self, index: Tensor) -> Tensor:
        """The rows (…, D) at indices (…), as of now."""
        if self._triton:
            on_ball = self.constraint == "ball"
            rows: Tensor = self._triton.read_rows(self._state, index.reshape(-1), ball=on_ball, unit=False)
            return rows.reshape(*index.shape, self.table.shape[1])
        if self._compiled:
            return self._read_compiled(index, to_unit=False)
        table, mean, square, last = (one.index_select(0, index.reshape(-1)) for one in self._parts())
        rows = project(table - self._missed(mean, square, last), self.constraint)
        return rows.reshape(*index.shape, self.table.shape[1])

    def vectors(self, index: Tensor) -> Tensor:
        """The vectors (…, D) of the rows at indices (…), as of now: on the sphere, of length 1."""
        on_sphere = self.constraint == "sphere"
        if self._triton:
            rows: Tensor = self._triton.read_rows(self._state, index.reshape(-1), ball=not on_sphere, unit=on_sphere)
            return rows.reshape(*index.shape, self.table.shape[1])
        if self._compiled:
            return self._read_compiled(index, to_unit=on_sphere)
        return to_vectors(self.rows(index), self.constraint)

    def everything(self) -> Tensor:
        """All rows (n, D), as of now."""
        if self._compiled:
            return self.rows(torch.arange(len(self.table)))
        return project(self.table - self._missed(self.mean, self.square, self.last), self.constraint)

    def step(self, index: Tensor, gradient: Tensor) -> None:
        """One step: gradients (m, D) for the rows at indices (m,), none for all others.

        Gradients of a row that comes more than once add up.
        """
        if self._triton:
            self._triton.move_rows(self._state, index, gradient, ball=self.constraint == "ball")
            self.steps += 1
            return
        if self._compiled:
            self._step_compiled(index, gradient)
            return
        config = self.config
        index, gradient = _summed(index, gradient)
        table, mean, square, last = (one.index_select(0, index) for one in self._parts())
        table = project(table - self._missed(mean, square, last), self.constraint)
        self.steps += 1
        gap = (self.steps - last).double()[:, None]  # (m, 1)
        mean = mean * _power(config.beta1, gap) + (1 - config.beta1) * gradient
        square = square * _power(config.beta2, gap) + (1 - config.beta2) * gradient.square()
        rate = config.learning_rate * _at(self._correction, self.steps)  # (1,)
        epsilon = config.epsilon * (1 - torch.pow(config.beta2, self.steps.double())).sqrt()  # (1,)
        table = project(table - rate.float() * mean / (square.sqrt() + epsilon.float()), self.constraint)
        for whole, part in zip(self._parts(), (table, mean, square, self.steps.expand(len(index))), strict=True):
            whole.index_copy_(0, index, part)

    def _read_compiled(self, index: Tensor, *, to_unit: bool) -> Tensor:
        rows = torch.empty(*index.shape, self.table.shape[1])
        state, constants, _ = self._arrays
        where = index.reshape(-1).numpy(), constants, self._longest, to_unit, rows.view(-1, rows.shape[-1]).numpy()
        adam.read_rows(state, int(self.steps), *where)
        return rows

    def _step_compiled(self, index: Tensor, gradient: Tensor) -> None:
        state, constants, place = self._arrays
        correction = float(_at(self._correction, self.steps + 1))
        what = index.numpy(), gradient.numpy(), constants, correction, self._longest, place
        adam.move_rows(state, int(self.steps), *what)
        self.steps += 1

    @cached_property
    def _arrays(self) -> tuple[adam.State, adam.Constants, NDArray[np.int32]]:
        """What the compiled loops work on: the state (the same memory), constants, and their scratch (n,)."""
        table, mean, square, last = (one.numpy() for one in self._parts())
        rates = np.array([self.config.learning_rate, self.config.epsilon, self.config.beta1, self.config.beta2])
        ahead = self._ahead.numpy(), self._ahead_epsilon.numpy()
        constants = rates, *ahead, adam.powers_of(rates, _SHORT_GAP)
        return (table, mean, square, last), constants, np.full(len(table), -1, np.int32)

    def _parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.table, self.mean, self.square, self.last

    def _missed(self, mean: Tensor, square: Tensor, last: Tensor) -> Tensor:
        """How far rows (m, D) with these moments, last touched at steps (m,), have moved since."""
        beta1, beta2 = self.config.beta1, self.config.beta2
        gap = (self.steps - last).double()  # (m,)
        moves = _between(self._ahead, last, self.steps, torch.pow(beta1 / beta2**0.5, gap))  # (m,)
        epsilons = _between(self._ahead_epsilon, last, self.steps, torch.pow(beta1 / beta2, gap))  # (m,)
        epsilon = self.config.epsilon * torch.where(moves > 0, epsilons / moves, 1.0)  # (m,)
        scale = self.config.learning_rate * moves  # (m,)
        return scale.float()[:, None] * mean / (square.sqrt() + epsilon.float()[:, None])


def _tables(config: Adam, planned: int) -> tuple[NDArray[np.float64], ...]:
    """c_s, A(s) and B(s) for s = 0, 1, … until none of them changes any more; c_0 is not used."""
    settled = int(np.ceil(np.log(1e-16) / np.log(config.beta2))) + 1  # S
    if config.schedule != "constant":
        settled = max(settled, planned)
    s = np.arange(1, settled + 1)
    correction = np.sqrt(1 - config.beta2**s) / (1 - config.beta1**s) * _shares(config.schedule, s, planned)  # (S,)
    correction = np.concatenate(([1.0], correction))  # (S + 1,)
    epsilon = np.concatenate(([0.0], np.sqrt(1 - config.beta2**s)))  # (S + 1,)
    ahead = _sum_ahead(config.beta1 / config.beta2**0.5, correction)
    return correction, ahead, _sum_ahead(config.beta1 / config.beta2, correction * epsilon)


def _shares(schedule: Schedule, steps: NDArray[np.int64], planned: int) -> NDArray[np.float64]:
    """What share of the learning rate is left at steps (S,), the first of which is 1; after the last, as at it."""
    if schedule == "constant":
        return np.ones(len(steps))
    done = np.minimum(steps - 1, planned - 1) / planned
    return (1 + np.cos(np.pi * done)) / 2


def _sum_ahead(ratio: float, terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ_{k≥1} ratio^k terms[s + k] for each s (S + 1,), the last term going on for ever."""
    last = terms[-1] * ratio / (1 - ratio)
    ahead, _ = lfilter([ratio], [1, -ratio], terms[:0:-1], zi=[ratio * last])  # the recurrence, backwards
    return np.append(ahead[::-1], last)


def _between(ahead: Tensor, last: Tensor, now: Tensor, faded: Tensor) -> Tensor:
    """Of the sums ahead of steps (m,), what lies before now (1,); `faded` (m,) is ratio^(now − last)."""
    return _at(ahead, last) - faded * _at(ahead, now)


def _power(base: float, exponent: Tensor) -> Tensor:
    return torch.pow(base, exponent).float()


def _at(table: Tensor, step: Tensor) -> Tensor:
    """The table's values (m,) at steps (m,), its last value for all later ones."""
    return table.index_select(0, step.clamp_max(len(table) - 1))


def _summed(index: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Indices (m,) sorted, and beside each the sum (m, D) of the gradients of its row.

    As many as came in: the size must not depend on the values, for then a GPU would have to be waited for.
    """
    index, order = index.sort(stable=True)
    group = torch.zeros_like(index)  # (m,) which distinct row this is, counted from 0
    group[1:] = (index[1:] != index[:-1]).cumsum(0)
    begins = torch.searchsorted(group, torch.arange(len(group), device=group.device))  # (m,) m for groups there are not
    total = embedding_bag(order, gradient, begins, mode="sum")  # (m, D) adds in a fixed order
    return index, total.index_select(0, group)
