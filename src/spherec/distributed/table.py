"""An embedding whose rows are dealt out to the processes of a run: number i belongs to process i mod n.

A process reads rows of others by asking their owners, and sends them the gradients of their rows. Each owner moves its
own rows, whose moments never leave it. Rows of users do not travel: a process learns from the pairs of its own users.

An owner adds up the gradients of a row in the order of the batch, wherever they come from. So a sum is rounded in the
same way in any number of processes.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

from spherec import rng
from spherec.data.interactions import Interactions
from spherec.distributed.group import ProcessGroup
from spherec.embedding import EmbeddingTable
from spherec.errors import FailedProcessError, NotEnoughMemoryError
from spherec.geometry import DenseVectors, unit
from spherec.training.config import Training

_BLOCK = 1 << 16  # vectors drawn or sent at once; a multiple of 16, see `_draw_rows`


class ShareGenerator(torch.Generator):
    """A generator for batches that processes share. All of them seed it alike and draw from it alike."""

    size: int = 0
    "B, pairs of the batch."
    places: Tensor | None = None
    "(b,) places of this process's pairs in the batch, ascending; None if all are its own."

    def draw_rows(self, draw: Callable[[int], Tensor], rows: int) -> Tensor:
        """Draw for the whole batch, and return the rows of this process's pairs."""
        return draw(rows) if self.places is None else draw(self.size)[self.places]


class ShardedTable:
    """The rows of all processes, of which this one holds a table.

    All processes call each method together, also where one has nothing to ask for.

    Args:
        table: The rows of this process, in the order of their numbers.
        count: Number of items and users in all processes, I + U.
        group: The processes.
        generator: Source of everything random in a step; it knows which pairs of the batch are this process's.
        config: Settings of the run.
    """

    def __init__(
        self, table: EmbeddingTable, count: int, group: ProcessGroup, generator: ShareGenerator, config: Training
    ) -> None:
        self.own, self.subspaces = table, table.subspaces
        self._count, self._group, self._generator = count, group, generator
        self._pooled = config.sampler.shared  # the pairs of a batch share their negatives
        self._sends_zeros = config.constraint == "ball"  # rows must be moved, too, whose gradient is zero

    def __len__(self) -> int:
        """Return the number of items and users, I + U."""
        return self._count

    def rows(self, index: Tensor) -> Tensor:
        """Return the raw rows (P, m, d) of numbers (m,) as they are now; each travels once."""
        n = self._group.size
        wanted, places = torch.unique(index, return_inverse=True)  # (w,), (m,)
        order, counts = self._by_owner(wanted)
        sizes = self._group.exchange_sizes(counts)
        asked = self._group.exchange(wanted[order], counts, sizes)  # (a,) numbers that others want from here
        rows = self._group.exchange(self.own.rows(asked // n).movedim(0, 1), sizes, counts)  # (w, P, d) by owner
        place_of = torch.empty_like(order)
        place_of[order] = torch.arange(len(order), device=order.device)  # (w,)
        return rows[place_of[places]].movedim(0, 1).contiguous()

    def block(self, first: int, past: int) -> Tensor:
        """Return the raw rows (b, P, d) of the numbers from `first` to `past` - 1 as they are now."""
        begin, end = (count_held(number, self._group.rank, self._group.size) for number in (first, past))
        return interleave(self.own.block(begin, end), first, past, self._group, everywhere=True)

    def training_rows(self, index: Tensor, n_users: int) -> Tensor:  # noqa: ARG002
        """Return the raw rows (P, m, d) for a training step; users and items alike."""
        return self.rows(index)

    def step(self, index: Tensor, gradient: Tensor, n_users: int) -> None:  # noqa: ARG002
        """Make one step with gradients (P, m, d) of the rows of numbers (m,); those of the same row add up.

        The first `n_users` numbers are those of this process's users, as many of their positives and then those of
        negatives follow.
        """
        n = self._group.size
        turns = self._turns(len(index))  # (m,)
        if not self._sends_zeros:
            moved = (gradient != 0).any(-1).any(0).nonzero()[:, 0]
            index, turns, gradient = index[moved], turns[moved], gradient[:, moved]
        order, counts = self._by_owner(index)
        sizes = self._group.exchange_sizes(counts)
        heads = self._group.exchange(torch.stack((index, turns), 1)[order], counts, sizes)  # (a, 2)
        gradients = self._group.exchange(gradient.movedim(0, 1)[order], counts, sizes)  # (a, P, d)
        in_turn = heads[:, 1].argsort(stable=True)
        self.own.step(heads[in_turn, 0] // n, gradients[in_turn].movedim(0, 1).contiguous(), 0)

    def state(self) -> dict[str, Tensor]:
        """Return the table of this process, its moments and its steps; views, not copies."""
        return self.own.state()

    def _by_owner(self, numbers: Tensor) -> tuple[Tensor, list[int]]:
        """Return the order (m,) of numbers (m,) by their owners, and how many each owner has (n,)."""
        owners = numbers % self._group.size
        return owners.argsort(stable=True), owners.bincount(minlength=self._group.size).tolist()

    def _turns(self, m: int) -> Tensor:
        """Return for each of the m numbers of a step its place among those of the whole batch (m,).

        A pool that the batch shares has the same places in all processes; there the processes take turns.
        """
        places, size = self._generator.places, self._generator.size  # (b,)
        assert places is not None  # there are other processes
        rest = m - 2 * len(places)
        if self._pooled or not rest:
            negatives = torch.arange(rest, device=places.device)
        else:
            each = rest // len(places)  # N
            negatives = (places[:, None] * each + torch.arange(each, device=places.device)).flatten()
        return torch.cat((places, places + size, negatives + 2 * size))


def count_held(past: int, rank: int, n: int) -> int:
    """Return how many of the numbers 0 … past − 1 belong to process `rank` of n."""
    return (past - rank + n - 1) // n


def interleave(rows: Tensor, first: int, past: int, group: ProcessGroup, *, everywhere: bool) -> Tensor:
    """Return the rows (b, …) of the numbers from `first` to `past` - 1, of which each process gives those it holds.

    They are returned in all processes, or in process 0 alone and none in the others.
    """
    n = group.size
    if n == 1:
        return rows
    longest = max(count_held(past, rank, n) - count_held(first, rank, n) for rank in range(n))
    padded = rows.new_zeros(longest, *rows.shape[1:])
    padded[: len(rows)] = rows
    everything = group.collect(padded, everywhere=everywhere)
    whole = rows.new_empty(past - first if everything else 0, *rows.shape[1:])
    for rank, part in enumerate(everything):
        begin = (rank - first) % n
        whole[begin::n] = part[: len(whole[begin::n])]
    return whole


def hold_vectors(vectors: DenseVectors, group: ProcessGroup) -> DenseVectors:
    """Return the vectors that this process holds."""
    n, (first_user, first_item) = group.size, _firsts(vectors.n_items, group)
    reach = vectors.item_reach
    return DenseVectors(
        vectors.user_table[first_user::n].clone(),
        vectors.item_table[first_item::n].clone(),
        vectors.constraint,
        None if reach is None else reach[first_item::n].clone(),
        vectors.mainstream,
    )


def draw_held(data: Interactions, config: Training, group: ProcessGroup) -> DenseVectors:
    """Return those of the random first vectors that this process holds, the same as in a run of one process.

    All are drawn, users before items and a block at a time, and few are kept.
    """
    n, count = group.size, data.n_users + data.n_items
    first_user, first_item = _firsts(data.n_items, group)
    held = [np.arange(first_user, data.n_users, n), np.arange(data.n_users + first_item, count, n)]  # places
    tables = [torch.empty(len(places), config.dim) for places in held]
    begin = 0
    for rows in _draw_rows(count, config.dim, rng.torch_stream(config.seed, "initial vectors")):
        end = begin + len(rows)
        for table, places in zip(tables, held, strict=True):
            low, high = np.searchsorted(places, (begin, end))
            table[low:high] = unit(rows[places[low:high] - begin])
        begin = end
    users, items = tables
    return DenseVectors(users, items, config.constraint)


def gather_vectors(held: DenseVectors, data: Interactions, group: ProcessGroup) -> DenseVectors:
    """Return all vectors in process 0, in its main memory; in the others, those that they hold."""
    if group.size == 1:
        return held
    tables = {"users": (held.user_table, data.n_items, data.n_users), "items": (held.item_table, 0, data.n_items)}
    if held.item_reach is not None:
        tables["reach"] = held.item_reach, 0, data.n_items
    wholes = None
    with suppress(MemoryError, RuntimeError):  # how torch says that memory is short
        wholes = {
            name: torch.empty(0 if group.rank else count, *rows.shape[1:]) for name, (rows, _, count) in tables.items()
        }
    if group.agree(wholes is None)[0] or wholes is None:
        raise (NotEnoughMemoryError if wholes is None else FailedProcessError)(
            "process 0 has no memory for the whole model; write shards (--shards, RunFiles(…, in_shards=True))"
        )
    for name, (rows, first, count) in tables.items():
        _gather(rows, wholes[name], first, first + count, group)
    if group.rank:
        return held
    return DenseVectors(wholes["users"], wholes["items"], held.constraint, wholes.get("reach"), held.mainstream)


def _gather(rows: Tensor, whole: Tensor, first: int, past: int, group: ProcessGroup) -> None:
    """Write the rows (past − first, …) of the numbers from `first` on into `whole` in process 0."""
    rank, n = group.rank, group.size
    base = count_held(first, rank, n)
    for begin in range(first, past, _BLOCK):
        end = min(begin + _BLOCK, past)
        part = rows[count_held(begin, rank, n) - base : count_held(end, rank, n) - base]
        block = interleave(part, begin, end, group, everywhere=False)
        whole[begin - first : begin - first + len(block)] = block.cpu()


def _firsts(n_items: int, group: ProcessGroup) -> tuple[int, int]:
    """Return the first user and the first item that this process holds; then it holds every n-th."""
    return (group.rank - n_items) % group.size, group.rank


def _draw_rows(count: int, dim: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield normal rows (b, D), the same as drawn all at once.

    torch draws 16 numbers at a time, and the last ones anew if fewer are left: so all blocks but the last are multiples
    of 16, and the last is not the smallest.
    """
    begin = 0
    while begin < count:
        end = begin + _BLOCK if begin + 2 * _BLOCK <= count else count
        yield torch.empty(end - begin, dim).normal_(generator=generator)
        begin = end
