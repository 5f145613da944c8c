"""Rows of dense Adam at sparse cost, in plain torch. `spherec.optim` has the formulas."""

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from spherec.geometry import Constraint, project
from spherec.kernels.protocol import AdamRates, AdamState


class ReferenceRows:
    """Rows of a table under dense Adam, read as of now and moved by gradients; in the ball, none is longer than 1.

    With `parts`, indices (m,) stand for groups of P rows that lie next to each other: the table's P · index to
    P · index + P − 1. Rows (P m, D) are then the first of all groups, the second of all …
    """

    def __init__(self, state: AdamState, rates: AdamRates, *, ball: bool) -> None:
        self.state = state
        self._rates = rates
        self._constraint: Constraint = "ball" if ball else "sphere"

    def read(self, index: Tensor, parts: int = 1) -> Tensor:
        """Return the rows (P m, D) at indices (m,) as of now, a copy."""
        places = spread_parts(index, parts)
        return self._caught_up(*(part.index_select(0, places) for part in self._parts()))

    def read_range(self, first: int, past: int) -> Tensor:
        """Return the rows from `first` to `past` - 1 as of now, a copy."""
        return self._caught_up(*(part[first:past] for part in self._parts()))

    def move(self, index: Tensor, gradient: Tensor, parts: int = 1) -> None:
        """Make the step after `steps`, and count it: gradients (P m, D) for the rows at indices (m,)."""
        rates = self._rates
        index, gradient = _add_up(spread_parts(index, parts), gradient)
        table, mean, square, last = (part.index_select(0, index) for part in self._parts())
        table = self._caught_up(table, mean, square, last)
        step = self.state.steps + 1  # (1,)
        gap = (step - last).double()[:, None]  # (m, 1)
        mean = mean * _power(rates.beta1, gap) + (1 - rates.beta1) * gradient
        square = square * _power(rates.beta2, gap) + (1 - rates.beta2) * gradient.square()
        rate = rates.learning_rate * _at(rates.correction, step)  # (1,)
        epsilon = rates.epsilon * (1 - torch.pow(rates.beta2, step.double())).sqrt()  # (1,)
        table = project(table - rate.float() * mean / (square.sqrt() + epsilon.float()), self._constraint)
        for whole, part in zip(self._parts(), (table, mean, square, step.expand(len(index))), strict=True):
            whole.index_copy_(0, index, part)
        self.state.steps.add_(1)

    def _parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.state.table, self.state.mean, self.state.square, self.state.last

    def _caught_up(self, table: Tensor, mean: Tensor, square: Tensor, last: Tensor) -> Tensor:
        """Return rows (m, D) with the moves that they have missed since their last steps (m,)."""
        rates, now = self._rates, self.state.steps
        gap = (now - last).double()  # (m,)
        moves = _between(rates.ahead, last, now, torch.pow(rates.beta1 / rates.beta2**0.5, gap))  # (m,)
        epsilons = _between(rates.ahead_epsilon, last, now, torch.pow(rates.beta1 / rates.beta2, gap))  # (m,)
        epsilon = rates.epsilon * torch.where(moves > 0, epsilons / moves, 1.0)  # (m,)
        scale = rates.learning_rate * moves  # (m,)
        missed = scale.float()[:, None] * mean / (square.sqrt() + epsilon.float()[:, None])  # (m, D)
        return project(table - missed, self._constraint)


def spread_parts(index: Tensor, parts: int) -> Tensor:
    """Return the places in the table (P m,) of the rows of indices (m,), as `ReferenceRows` orders them."""
    return (index * parts + torch.arange(parts, device=index.device)[:, None]).reshape(-1)


def _between(ahead: Tensor, last: Tensor, now: Tensor, faded: Tensor) -> Tensor:
    """Return the part of the sums ahead of steps (m,) that lies before now (1,); `faded` (m,) is ratio^(now − last)."""
    return _at(ahead, last) - faded * _at(ahead, now)


def _power(base: float, exponent: Tensor) -> Tensor:
    return torch.pow(base, exponent).float()


def _at(table: Tensor, step: Tensor) -> Tensor:
    """Return the table's values (m,) at steps (m,), its last value for all later ones."""
    return table.index_select(0, step.clamp_max(len(table) - 1))


def _add_up(index: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Return the indices (m,) sorted, each with the sum (m, D) of the gradients of its row.

    There are as many as came in: a size that depends on the values would make the host wait for a GPU.
    """
    index, order = index.sort(stable=True)
    group = torch.zeros_like(index)  # (m,) number of the distinct row, counted from 0
    group[1:] = (index[1:] != index[:-1]).cumsum(0)
    begins = torch.searchsorted(group, torch.arange(len(group), device=group.device))  # (m,) m for groups there are not
    total = embedding_bag(order, gradient, begins, mode="sum")  # (m, D) adds in a fixed order
    return index, total.index_select(0, group)
