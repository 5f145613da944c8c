"""A run of several processes: which pairs each learns from, which vectors it holds, and how they come together."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from spherec import rng
from spherec.data.interactions import Interactions
from spherec.distributed.group import ProcessGroup, ShareGenerator
from spherec.distributed.partitions import HeldInteractions
from spherec.distributed.table import Share, interleave
from spherec.errors import FailedProcessError, NotEnoughMemoryError
from spherec.geometry import DenseVectors, unit
from spherec.training.config import Training
from spherec.training.step import Batches, Pairs, Run

_BLOCK = 1 << 16  # vectors drawn or sent at once; a multiple of 16, see `_draw_rows`


def take_share(group: ProcessGroup, config: Training, device: torch.device) -> Share:
    """Return this process's part of the run."""
    generator = ShareGenerator(device)
    generator.set_state(rng.torch_stream(config.seed, "negatives", device=device).get_state())
    return Share(group, generator)


class SharedBatches(Batches):
    """The batches of an epoch, of which each process learns from the pairs of its own users."""

    def __init__(self, run: Run, pairs: Pairs, share: Share) -> None:
        super().__init__(run, pairs, run.config.batch_size)
        self._share = share
        pool = min(run.config.sampler.negatives, max(run.n_items, 1))
        self._negatives = pool if run.config.sampler.shared else run.config.sampler.negatives

    def step(self) -> tuple[int, int]:
        """Learn from the next batch; return its number of pairs and of places for negatives, in all processes."""
        batch = self._order[self._first : self._first + self._batch_size]  # (B,)
        self._first += len(batch)
        users, positives = (column[batch].long() for column in self._pairs)
        group = self._share.group
        mine = ((users + self._run.n_items) % group.size == group.rank).nonzero()[:, 0]  # (b,)
        self._learn(users[mine], positives[mine], mine, len(batch))
        return len(batch), len(batch) * self._negatives

    def _learn(self, users: Tensor, positives: Tensor, places: Tensor, size: int) -> None:
        """Learn from pairs (b,) that have these places (b,) in a batch of this size."""
        generator = self._share.generator
        generator.size, generator.places = size, places if self._share.group.size > 1 else None
        self._run.step(users, positives)


class PartitionedBatches(SharedBatches):
    """The batches of an epoch, of which each process knows the pairs of its own users alone.

    Every partition is shuffled by itself, and a batch takes from each in proportion to its size. So batches depend on
    the number of partitions, and not on that of processes. A batch may have a few pairs more or less than B.
    """

    def __init__(self, run: Run, data: HeldInteractions, share: Share) -> None:
        partition = data.partition_of_pairs()  # (e,)
        order = np.argsort(partition, kind="stable") if data.n_partitions > share.group.size else slice(None)
        device = run.vectors.device
        users, items = (torch.tensor(column[order], device=device) for column in (data.users, data.indices))  # (e,)
        super().__init__(run, (users, items), share)
        self._sizes: list[int] = data.totals.partition_sizes.tolist()
        self._own = range(share.group.rank, data.n_partitions, share.group.size)

    def begin(self, epoch: int, first: int) -> None:
        """Begin an epoch, counted from 0: pairs come in random order, and `first` of them are done already."""
        self._first, begin, self._orders = first, 0, {}
        for partition in self._own:
            self._orders[partition] = self._shuffle(self._sizes[partition], epoch, partition).add_(begin)
            begin += self._sizes[partition]

    def step(self) -> tuple[int, int]:
        """Learn from the next batch; return about how many pairs and places for negatives it has, in all processes."""
        last = min(self._first + self._batch_size, sum(self._sizes))
        begins, ends = self._count_taken(self._first), self._count_taken(last)  # (P,) of each partition
        counts = [end - begin for begin, end in zip(begins, ends, strict=True)]
        starts = list(accumulate(counts, initial=0))  # (P + 1,) places in the batch
        batch = torch.cat([self._orders[one][begins[one] : ends[one]] for one in self._own])  # (b,)
        places = torch.cat([torch.arange(starts[one], starts[one + 1], device=batch.device) for one in self._own])
        users, positives = (column[batch].long() for column in self._pairs)
        self._learn(users, positives, places, starts[-1])
        pairs, self._first = last - self._first, last
        return pairs, pairs * self._negatives

    def _count_taken(self, pairs: int) -> list[int]:
        """Return how many pairs of each partition (P,) are among the first `pairs` of the epoch.

        That is its share of them, rounded down here and up there, so that they nearly add up.
        """
        whole, n = sum(self._sizes), len(self._sizes)
        return [(size * pairs * n + number * whole) // (whole * n) for number, size in enumerate(self._sizes)]


def hold_vectors(vectors: DenseVectors, share: Share) -> DenseVectors:
    """Return the vectors that this process holds."""
    n, (first_user, first_item) = share.group.size, _firsts(vectors.n_items, share)
    reach = vectors.item_reach
    return DenseVectors(
        vectors.user_table[first_user::n].clone(),
        vectors.item_table[first_item::n].clone(),
        vectors.constraint,
        None if reach is None else reach[first_item::n].clone(),
        vectors.mainstream,
    )


def draw_held(data: Interactions, config: Training, share: Share) -> DenseVectors:
    """Return those of the random first vectors that this process holds, the same as in a run of one process.

    All are drawn, a block at a time, and few are kept.
    """
    n, firsts = share.group.size, _firsts(data.n_items, share)
    past = (data.n_users, data.n_users + data.n_items)
    tables = [
        torch.empty(len(range(first, count, n)), config.dim)
        for first, count in zip(firsts, (data.n_users, data.n_items), strict=True)
    ]
    generator = rng.torch_stream(config.seed, "initial vectors")
    number = 0
    for rows in _draw_rows(data.n_users + data.n_items, config.dim, generator):
        for table, start, first, end in zip(tables, (0, past[0]), firsts, past, strict=True):
            begin = max(number, start)  # the rows of this block that belong to this table
            part = rows[begin - number : max(end - number, 0)]
            skip = (first - (begin - start)) % n
            kept = part[skip::n]
            place = len(range(first, begin - start, n))
            table[place : place + len(kept)] = unit(kept)
        number += len(rows)
    users, items = tables
    return DenseVectors(users, items, config.constraint)


def gather_vectors(held: DenseVectors, data: Interactions, share: Share) -> DenseVectors:
    """Return all vectors in process 0, in its main memory; in the others, those that they hold."""
    group, n_items = share.group, data.n_items
    if group.size == 1:
        return held
    tables = {"users": (held.user_table, n_items, data.n_users), "items": (held.item_table, 0, n_items)}
    if held.item_reach is not None:
        tables["reach"] = held.item_reach, 0, n_items
    wholes = None
    with suppress(MemoryError, RuntimeError):  # how torch says that memory is short
        wholes = {
            name: torch.empty(0 if group.rank else count, *rows.shape[1:]) for name, (rows, _, count) in tables.items()
        }
    if group.agree(wholes is None)[0] or wholes is None:
        raise (NotEnoughMemoryError if wholes is None else FailedProcessError)(
            "process 0 has no memory for the whole model; write it in shards (train --shards, fit(…, in_shards=True))"
        )
    for name, (rows, first, count) in tables.items():
        _gather(rows, wholes[name], first, first + count, share)
    if group.rank:
        return held
    return DenseVectors(wholes["users"], wholes["items"], held.constraint, wholes.get("reach"), held.mainstream)


def _gather(rows: Tensor, whole: Tensor, first: int, past: int, share: Share) -> None:
    """Write the rows (past − first, …) of the numbers from `first` on into `whole` in process 0."""
    base = share.count_held(first)
    for begin in range(first, past, _BLOCK):
        end = min(begin + _BLOCK, past)
        part = rows[share.count_held(begin) - base : share.count_held(end) - base]
        block = interleave(part, begin, end, share.group, everywhere=False)
        whole[begin - first : begin - first + len(block)] = block.cpu()


def _firsts(n_items: int, share: Share) -> tuple[int, int]:
    """Return the first user and the first item that this process holds; then it holds every n-th."""
    return share.first_from(n_items), share.first_from(0)


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
