"""The metric space: the sphere and the ball, squared distance, and the vectors of all users and items.

The formulas here are the reference for the compiled kernels in `spherec.kernels`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Protocol, get_args

import numpy as np
import torch
from torch import Tensor

from spherec.errors import ArgumentError, check_choice, check_number

Constraint = Literal["sphere", "ball"]
"""sphere: rows are scaled to length 1 when they are read. ball: rows longer than 1 are scaled back to length 1."""

SHORTEST = 1e-12
"""Below this length a row has no direction and is not scaled up."""

_BLOCK = 1 << 17  # vectors in a block of a dense table


class Geometry(Protocol):
    """Read-only view of the space at this moment: what a sampler may look at."""

    @property
    def constraint(self) -> Constraint:
        """Space of the vectors: sphere or ball."""

    @property
    def dim(self) -> int: ...

    def users(self, index: Tensor) -> Tensor:
        """Return the vectors (…, D) of user indices (…)."""

    def items(self, index: Tensor) -> Tensor:
        """Return the vectors (…, D) of item indices (…)."""


class Vectors(Geometry, Protocol):
    """The vectors of all users and items, without the promise that they fit into one tensor.

    Whoever needs all of them walks through `user_blocks` or `item_blocks`. `DenseVectors` holds two tables in memory;
    a run in progress computes blocks from its rows; sharded tables would fetch them.
    """

    @property
    def n_users(self) -> int: ...

    @property
    def n_items(self) -> int: ...

    @property
    def device(self) -> torch.device:
        """Device of the blocks."""

    @property
    def block_size(self) -> int:
        """Vectors in a block; the last block may have fewer."""

    @property
    def reach(self) -> Tensor | None:
        """(I,) what each item's reach adds to its scores when all of it counts; None if items have no reach."""

    @property
    def mainstream(self) -> float:
        """λ by default: the share of reach that counts in a list."""

    def user_blocks(self) -> Iterator[Tensor]:
        """Yield the user vectors (b, D), block after block, in the order of their indices."""

    def item_blocks(self) -> Iterator[Tensor]:
        """Yield the item vectors (b, D), block after block, in the order of their indices."""


@dataclass(frozen=True)
class DenseVectors:
    """`Vectors` in two tables, in memory or mapped from a file."""

    user_table: Tensor
    "(U, D)"
    item_table: Tensor
    "(I, D)"
    constraint: Constraint = "sphere"
    item_reach: Tensor | None = None
    "(I, P) reach of the items in each of P subspaces, as it adds to a score; None if items have no reach."
    mainstream: float = 1.0
    "λ by default: the share of reach that counts in a list."
    reach: Tensor | None = field(init=False, repr=False, compare=False)
    "(I,) what each item's reach adds to its scores; None if items have no reach."

    def __post_init__(self) -> None:
        check_choice("constraint", self.constraint, get_args(Constraint))
        check_mainstream(self.mainstream)
        users, items, reach = self.user_table, self.item_table, self.item_reach
        tables = [users, items] if reach is None else [users, items, reach]
        fits = all(table.dim() == 2 and table.dtype == torch.float32 for table in tables)
        fits = fits and users.shape[1] == items.shape[1] and (reach is None or len(reach) == len(items))
        if not fits or (reach is not None and not reach.shape[1]):
            got = ", ".join(f"{table.dtype} {(*table.shape,)}" for table in tables)
            raise ArgumentError(
                "tables of vectors must be float32, (U, D) of users, (I, D) of items and, if they have reach, (I, P); "
                f"got {got}"
            )
        # The mean over subspaces, as the vectors' product is the mean of theirs.
        object.__setattr__(self, "reach", None if reach is None else reach.mean(1))

    @classmethod
    def random(
        cls, n_users: int, n_items: int, dim: int, generator: torch.Generator, *, constraint: Constraint = "sphere"
    ) -> "DenseVectors":
        """Draw normal rows and scale them to length 1, on the generator's device."""
        rows = torch.empty(n_users + n_items, dim, device=generator.device)  # (U + I, D)
        rows = unit(rows.normal_(generator=generator))
        return cls(rows[:n_users].clone(), rows[n_users:].clone(), constraint)

    @property
    def dim(self) -> int:
        return self.item_table.shape[1]

    @property
    def n_users(self) -> int:
        return len(self.user_table)

    @property
    def n_items(self) -> int:
        return len(self.item_table)

    @property
    def device(self) -> torch.device:
        return self.item_table.device

    @property
    def block_size(self) -> int:
        return _BLOCK

    def to(self, device: torch.device) -> "DenseVectors":
        """Return the same vectors on another device."""
        reach = None if self.item_reach is None else self.item_reach.to(device)
        users, items = self.user_table.to(device), self.item_table.to(device)
        return replace(self, user_table=users, item_table=items, item_reach=reach)

    def users(self, index: Tensor) -> Tensor:
        return gather(self.user_table, index)

    def items(self, index: Tensor) -> Tensor:
        return gather(self.item_table, index)

    def user_blocks(self) -> Iterator[Tensor]:
        return iter(torch.split(self.user_table, _BLOCK))

    def item_blocks(self) -> Iterator[Tensor]:
        return iter(torch.split(self.item_table, _BLOCK))


class Space(NamedTuple):
    """Settings that turn raw rows into vectors, and the reach in them into scores."""

    constraint: Constraint
    dim: int
    mainstream: float
    reach_scale: float | None
    "Score of a reach of 1; None if items have no reach."


def check_finite(vectors: Vectors) -> None:
    """Raise an `ArgumentError` that names the first vector with NaN or infinity.

    By NumPy, because a process that has run a parallel region of torch cannot be forked safely.
    """
    for role, blocks in (("user", vectors.user_blocks()), ("item", vectors.item_blocks())):
        first = 0
        for block in blocks:
            finite = np.isfinite(block.cpu().numpy()).all(1)  # (b,)
            if not finite.all():
                row = first + int(finite.argmin())
                raise ArgumentError(f"{role} vectors must be finite, got NaN or infinity in row {row}; fix or drop it")
            first += len(finite)
    reach = vectors.reach
    if reach is not None and not (finite := np.isfinite(reach.cpu().numpy())).all():
        raise ArgumentError(f"reach must be finite, got NaN or infinity for item {finite.argmin()}; fix or drop it")


def check_mainstream(mainstream: float) -> float:
    """Return λ as a number; raise an `ArgumentError` unless it is one between -100 and 100."""
    check_number("mainstream", mainstream, -100, 100, "0 to 1")
    return float(mainstream)


def gather(table: Tensor, index: Tensor) -> Tensor:
    """Return the rows (…, D) of a table (n, D) at indices (…)."""
    return table.index_select(0, index.reshape(-1)).reshape(*index.shape, table.shape[1])


def to_vectors(rows: Tensor, constraint: Constraint) -> Tensor:
    """Turn raw rows (…, D) into vectors of the space: on the sphere, scale them to length 1."""
    return unit(rows) if constraint == "sphere" else rows


def project(rows: Tensor, constraint: Constraint) -> Tensor:
    """Bring raw rows (…, D) into the form in which they are stored: in the ball, none is longer than 1."""
    if constraint == "sphere":
        return rows
    length: Tensor = rows.norm(dim=-1, keepdim=True)  # (…, 1)
    return rows / length.clamp_min(1.0)


def unit(rows: Tensor) -> Tensor:
    """Scale rows (…, D) to length 1; a row of zeros stays zero."""
    length: Tensor = rows.norm(dim=-1, keepdim=True)  # (…, 1)
    return rows / length.clamp_min(SHORTEST)


def split_subspaces(vectors: Tensor, subspaces: int) -> Tensor:
    """Split vectors (…, D) into P subspaces (…, P, d), scaled so that d² is the mean of the P squared distances."""
    return torch.unflatten(vectors * subspaces**0.5, -1, (subspaces, -1))


def join_subspaces(parts: Tensor) -> Tensor:
    """Join vectors (…, P, d) of P subspaces into one vector each (…, D): the inverse of `split_subspaces`."""
    whole: Tensor = parts.flatten(-2) / parts.shape[-2] ** 0.5
    return whole


def place_rows(rows: Tensor, constraint: Constraint, *, reach: bool) -> Tensor:
    """Return the vectors (b, D) of raw rows (b, P, d), with reach (b, P, d + 1)."""
    vectors = to_vectors(rows[..., :-1] if reach else rows, constraint)  # (b, P, d)
    return vectors[:, 0] if rows.shape[1] == 1 else to_vectors(join_subspaces(vectors), constraint)


def measure_lengths(rows: Tensor, *, reach: bool) -> Tensor:
    """Return the lengths (b, P) of raw rows (b, P, d), with reach (b, P, d + 1)."""
    lengths: Tensor = (rows[..., :-1] if reach else rows).norm(dim=-1)
    return lengths


def each_subspace(gradient: Callable[[Tensor], tuple[Tensor, Tensor]], rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of rows (P, m, d), and the mean over the subspaces of their sums (3,).

    `gradient` returns both for the rows (m, d) of one subspace.
    """
    if len(rows) == 1:
        only, sums = gradient(rows[0])
        return only[None], sums
    gradients, all_sums = zip(*map(gradient, rows), strict=True)
    return torch.stack(gradients), torch.stack(all_sums).mean(0)


def widen_items(items: Tensor, reach: Tensor, longest: float) -> Tensor:
    """Return item vectors (…, D) with their reach (…) as vectors (…, D + 2), all of the same length on the sphere.

        [v, r, √(M² − r²)]        M = longest, no item's |r| is larger

    The product with a widened query is the score with reach, and of two items the nearer one has the larger product.
    """
    rest = (longest**2 - reach.square()).clamp_min(0).sqrt()  # (…)
    return torch.cat((items, reach[..., None], rest[..., None]), dim=-1)


def longest_reach(reach: Tensor) -> float:
    """Return M, the largest |r| of all items (I,); 0 if there are none."""
    return float(reach.abs().max()) if len(reach) else 0.0


def widened_dim(vectors: Vectors) -> int:
    """Return how many dimensions items and queries have where reach is made a coordinate: D + 2; without reach D."""
    return vectors.dim if vectors.reach is None else vectors.dim + 2


def widen_queries(queries: Tensor, dial: Tensor) -> Tensor:
    """Return queries (…, D) with λ (…) for items that `widen_items` has widened: [u, λ, 0], (…, D + 2)."""
    return torch.cat((queries, dial[..., None], torch.zeros_like(dial)[..., None]), dim=-1)


def squared_distance(queries: Tensor, others: Tensor) -> Tensor:
    """Return squared Euclidean distances from vectors (B, D).

    To (B, D), one each: (B,). To (B, N, D), N each: (B, N). To (1, C, D), the same for all: (B, C).
    """
    # |a - b|² = |a|² + |b|² - 2ab needs no (B, C, D) of differences.
    if others.dim() == 2:
        return (queries - others).square().sum(-1)
    return queries.square().sum(-1, keepdim=True) + others.square().sum(-1) - 2 * dots(queries, others)


def dots(queries: Tensor, others: Tensor) -> Tensor:
    """Return dot products (B, N) of vectors (B, D) with others: (B, N, D), N each, or (1, N, D), the same for all."""
    if others.shape[0] == 1:
        return queries @ others[0].T
    return (others @ queries[..., None])[..., 0]
