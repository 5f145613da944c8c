"""iALS: two tables whose products approximate the interactions, solved row by row, without steps or samples.

Hu, Koren and Volinsky (ICDM 2008), in the form of Rendle, Krichene, Zhang and Koren, *Revisiting the Performance of
iALS on Item Recommendation Benchmarks* (RecSys 2022). S are the pairs, c their weights, S_u those of one user:

    Σ_S c (u·v − 1)² + α Σ_all (u·v)² + λ ( Σ_u (|S_u| + αI)^ν |u|² + Σ_v (|S_v| + αU)^ν |v|² )

With all items fixed, each user is a system of its own. Its matrix is the sum of αG, with G = VᵀV the same for all
users, of a multiple of 1, and of one square for each pair. Both tables are turned by the eigenvectors of G, which
changes no product of them and makes the first two parts diagonal. A few conjugate gradients with this diagonal as
preconditioner do the rest (`spherec.kernels.reference.least_squares`). Equal rows of the interactions have equal
solutions, which are solved once: in a long tail, where most items belong to one user, few are left.

The large products are made in blocks of fixed size, one thread each. The same seed gives the same bits with any number
of threads.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from spherec import rng
from spherec.data.interactions import Interactions
from spherec.data.splits import choose_share
from spherec.device import run_at_once, threads_for
from spherec.errors import check_count, check_number
from spherec.geometry import DenseVectors, join_subspaces, unit
from spherec.kernels import backend
from spherec.kernels.reference.least_squares import Systems
from spherec.start import Start

_CPU = torch.device("cpu")
_BLOCK = 1 << 13  # rows of a product
_FIRST = 0.1  # times 1/√D: standard deviation of the first items
_WEIGHTS = (100.0, 300.0, 1000.0, 3000.0)  # of the catalogue, to choose among
_WEAKER, _CLEARLY = 0.3, 1.025  # a weaker λ must be so much better, because the small fits need less of it
_DIAL = 0.75  # of the lists by which they are compared
_HIDDEN, _SMALL_DIM, _SMALL_SWEEPS, _MOST_USERS, _BLOCK_OF_USERS = 0.1, 64, 4, 300, 64  # for the choice


@dataclass(frozen=True)
class Factors:
    """The solution: a user's score of an item is the product of their rows."""

    users: Tensor
    "(U, D)"
    items: Tensor
    "(I, D)"

    def to_sphere(self, reach_share: float, seed: int = 0) -> DenseVectors:
        """Return all rows at length 1, and as reach of an item so much of the logarithm of its length.

        On the sphere an item loses its length, which is most of its popularity; as reach it comes back, and can be
        dialled. Who has no row, because of no pairs, gets a random one, and an item the lowest reach.
        """
        lengths = self.items.norm(dim=1)  # (I,)
        is_placed = lengths > 0
        reach = torch.zeros_like(lengths)
        if is_placed.any():
            reach[is_placed] = reach_share * (lengths[is_placed] / lengths[is_placed].mean()).log()
            reach[~is_placed] = reach[is_placed].min()
        users = _on_sphere(self.users, rng.torch_stream(seed, "users without pairs"))
        items = _on_sphere(self.items, rng.torch_stream(seed, "items without pairs"))
        return DenseVectors(users, items, item_reach=reach[:, None])


def _on_sphere(rows: Tensor, generator: torch.Generator) -> Tensor:
    """Return rows (n, D) at length 1, and random ones in place of zeros."""
    is_empty, rows = ~rows.any(1), rows.clone()
    others = torch.empty(int(is_empty.sum()), rows.shape[1]).normal_(generator=generator)
    rows[is_empty] = others.to(rows.device)
    return unit(rows)


@dataclass(frozen=True)
class Ials(Start):
    """Settings of iALS; as `start` of a model, its factors on the sphere are the first vectors."""

    catalogue_weight: float | None = None
    """αI: weight of all items together, pairs or not, in the sum of one user, where a pair weighs 1. By default it is
    chosen among 100, 300, 1000 and 3000 on a tenth of the pairs, by small fits."""
    regularization: float = 0.01
    "λ. Where the weight is chosen, three tenths of λ are taken if that is clearly better."
    nu: float = 1.0
    "ν: 1 regularises a row by its weight in the sum, 0 all rows alike."
    sweeps: int = 8
    "Times that all users and all items are solved."
    steps: int = 4
    "Conjugate gradients for each row and sweep. A row without more pairs is solved exactly."
    reach_share: float = 0.33
    "Share of the logarithm of an item's length that becomes its reach."

    def __post_init__(self) -> None:
        for name in ("sweeps", "steps"):
            check_count(name, getattr(self, name))
        if self.catalogue_weight is not None:
            check_number("catalogue_weight", self.catalogue_weight, 1e-6, 1e9, "300")
        check_number("regularization", self.regularization, 1e-12, 1e6, "0.01")
        check_number("nu", self.nu, 0, 2, "1")
        check_number("reach_share", self.reach_share, -10, 10, "0.33")

    def resolve(self, data: Interactions, dim: int, seed: int = 0, device: torch.device = _CPU) -> "Ials":
        """Return the settings with a weight of the catalogue, chosen on this data if there is none."""
        if self.catalogue_weight is not None:
            return self
        is_hidden = choose_share(data, _HIDDEN, seed)  # (E,)
        shown, hidden = data.filter(~is_hidden), data.filter(is_hidden)
        if not hidden.n_pairs:
            return replace(self, catalogue_weight=_WEIGHTS[1])
        users = np.flatnonzero(hidden.items_per_user)
        users = rng.stream(seed, "users to choose on").permutation(users)[:_MOST_USERS]

        def quality(trial: Ials) -> float:
            small = replace(trial, sweeps=min(self.sweeps, _SMALL_SWEEPS))
            factors = fit_ials(shown, min(dim, _SMALL_DIM), small, seed=seed, device=device)
            return _mean_gain(factors.to_sphere(self.reach_share, seed), shown, hidden, users)

        trials = [
            [replace(self, catalogue_weight=weight, regularization=share * self.regularization) for weight in _WEIGHTS]
            for share in (1.0, _WEAKER)
        ]
        qualities = {trial: quality(trial) for part in trials for trial in part}
        as_given, weaker = (max(part, key=qualities.__getitem__) for part in trials)
        return weaker if qualities[weaker] > _CLEARLY * qualities[as_given] else as_given

    def vectors(self, data: Interactions, dim: int, subspaces: int, seed: int, device: torch.device) -> DenseVectors:
        """Return the factors of each subspace, from another seed in each."""
        seeds = range(seed, seed + subspaces)
        fits = [fit_ials(data, dim // subspaces, self, seed=one, device=device) for one in seeds]
        parts = [factors.to_sphere(self.reach_share, seed) for factors in fits]
        users, items = (
            join_subspaces(torch.stack(tables, dim=1))
            for tables in zip(*((part.user_table, part.item_table) for part in parts), strict=True)
        )
        reach = [part.item_reach for part in parts if part.item_reach is not None]
        return DenseVectors(users, items, item_reach=torch.cat(reach, dim=1))


def fit_ials(
    data: Interactions,
    dim: int,
    config: Ials | None = None,
    *,
    seed: int = 0,
    device: torch.device = _CPU,
    progress: Callable[[int], None] = lambda _: None,
) -> Factors:
    """Return factors of D dimensions; weights of pairs count. `progress` is called with the sweeps done."""
    config = (config or Ials()).resolve(data, dim, seed, device)
    alpha = (config.catalogue_weight or 0.0) / max(data.n_items, 1)
    weights = np.ones(len(data)) if data.weights is None else data.weights
    pairs = sparse.csr_array((weights, data.indices, data.indptr), shape=(data.n_users, data.n_items))
    with threads_for(0, device):
        users, items = (_Side(each, dim, config, alpha, device) for each in (pairs, pairs.T.tocsr()))
        generator = rng.torch_stream(seed, "first factors")
        items.rows[:] = torch.empty(items.rows.shape).normal_(0, _FIRST * dim**-0.5, generator=generator).to(device)
        for sweep in range(config.sweeps):
            users.solve(items)
            items.solve(users)
            progress(sweep + 1)
        return Factors(users.rows[users.row_of], items.rows[items.row_of])


def _mean_gain(vectors: DenseVectors, shown: Interactions, hidden: Interactions, users: NDArray[np.int64]) -> float:
    """Return the mean of 1 / log2(rank + 1) over hidden pairs of these users; ranks are among items not shown."""
    gains = []
    for block in np.split(users, range(_BLOCK_OF_USERS, len(users), _BLOCK_OF_USERS)):
        scores = vectors.users(torch.tensor(block, device=vectors.device)) @ vectors.item_table.T  # (b, I)
        scores += _DIAL * vectors.reach if vectors.reach is not None else 0
        for user, row in zip(block.tolist(), scores.cpu().numpy(), strict=True):  # (I,)
            row[shown.items_of(user)] = -np.inf
            ranks = (row > row[hidden.items_of(user), None]).sum(1)  # (h,)
            gains.append(np.mean(1 / np.log2(2 + ranks)))
    return float(np.mean(gains))


class _Side:
    """The rows of all users, or of all items, each different one once."""

    def __init__(self, pairs: sparse.csr_array, dim: int, config: Ials, alpha: float, device: torch.device) -> None:
        different, row_of = _different_rows(pairs)
        pairs = pairs[different]
        counts = np.diff(pairs.indptr)  # (n,)
        shift = config.regularization * (counts + alpha * pairs.shape[1]) ** config.nu

        def put(array: NDArray[Any], dtype: torch.dtype) -> Tensor:
            return torch.as_tensor(array, dtype=dtype, device=device)

        self.row_of = put(row_of, torch.int64)
        "(n',) row of each user or item."
        self.rows = torch.zeros(len(different), dim, device=device)
        "(n, D)"
        self._alpha, self._steps = alpha, config.steps
        self._times = put(np.bincount(row_of, minlength=len(different)), torch.float32)[:, None]  # (n, 1)
        self._starts, self._others = put(pairs.indptr, torch.int64), put(pairs.indices, torch.int64)
        self._weights = None if (pairs.data == 1).all() else put(pairs.data, torch.float32)
        self._shift = put(shift, torch.float32)
        self._kept = put(np.flatnonzero(counts > config.steps), torch.int64)  # the others begin anew

    def solve(self, other: "_Side") -> None:
        """Solve all rows, with those of the other side fixed; both are turned by its eigenvectors."""
        values, vectors = torch.linalg.eigh(other.gram())  # (D,), (D, D)
        turn = vectors.float()
        _in_blocks(other.rows, lambda block: block.copy_(block @ turn))
        kept = self.rows[self._kept]
        _in_blocks(kept, lambda block: block.copy_(block @ turn))
        self.rows[self._kept] = kept
        diagonal = (self._alpha * values.clamp(min=0)).float()
        systems = Systems(self._starts, other.row_of[self._others], self._weights, other.rows, diagonal, self._shift)
        backend(self.rows.device).solve_rows(systems, self.rows, self._steps)

    def gram(self) -> Tensor:
        """Return the sum of the squares of all rows (D, D), in float64."""
        parts = _in_blocks(self.rows, lambda block, times: block.T @ (block * times), self._times)
        return torch.stack(parts).double().sum(0)


def _in_blocks(rows: Tensor, function: Callable[..., Tensor], *more: Tensor) -> list[Tensor]:
    """Return what a function makes of blocks of rows (b, D), which are computed at once."""
    blocks = zip(*(torch.split(each, _BLOCK) for each in (rows, *more)), strict=True)
    return run_at_once([partial(function, *block) for block in blocks])


def _different_rows(pairs: sparse.csr_array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first of each kind of equal rows, and the place among them of every row."""
    places: dict[bytes, int] = {}
    first: list[int] = []
    place_of = np.empty(pairs.shape[0], np.int64)
    for row, (begin, end) in enumerate(pairwise(pairs.indptr.tolist())):
        key = pairs.indices[begin:end].tobytes() + pairs.data[begin:end].tobytes()
        place_of[row] = places.setdefault(key, len(places))
        if len(places) > len(first):
            first.append(row)
    return np.asarray(first, np.int64), place_of
