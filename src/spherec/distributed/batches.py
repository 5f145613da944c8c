"""A run of several processes: which pairs each learns from."""

from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from spherec.distributed.group import ProcessGroup
from spherec.distributed.held import HeldPairs
from spherec.distributed.table import ShareGenerator
from spherec.training.step import Batches, Pairs, Run


class SharedBatches(Batches):
    """The batches of an epoch, of which each process learns from the pairs of its own users."""

    def __init__(self, run: Run, pairs: Pairs, group: ProcessGroup) -> None:
        super().__init__(run, pairs)
        self._group = group
        pool = min(run.config.sampler.negatives, max(run.n_items, 1))
        self._negatives = pool if run.config.sampler.shared else run.config.sampler.negatives

    def step(self) -> tuple[int, int]:
        """Learn from the next batch; return its number of pairs and of places for negatives, in all processes."""
        batch = self._order[self._first : self._first + self._batch_size]  # (B,)
        self._first += len(batch)
        users, positives = (column[batch].long() for column in self._pairs)
        group = self._group
        mine = ((users + self._run.n_items) % group.size == group.rank).nonzero()[:, 0]  # (b,)
        self._learn(users[mine], positives[mine], mine, len(batch))
        return len(batch), len(batch) * self._negatives

    def _learn(self, users: Tensor, positives: Tensor, places: Tensor, size: int) -> None:
        """Learn from pairs (b,) that have these places (b,) in a batch of this size."""
        generator = self._run.generator
        if isinstance(generator, ShareGenerator):
            generator.size, generator.places = size, places if self._group.size > 1 else None
        self._run.step(users, positives)


class PartitionedBatches(SharedBatches):
    """The batches of an epoch, of which each process knows the pairs of its own users alone.

    Every partition is shuffled by itself, and a batch takes from each in proportion to its size. So batches depend on
    the number of partitions, and not on that of processes. A batch may have a few pairs more or less than B.
    """

    def __init__(self, run: Run, data: HeldPairs) -> None:
        order = np.argsort(data.partition_of_pairs(), kind="stable") if len(data.own_partitions) > 1 else slice(None)
        device = run.vectors.device
        users, items = (torch.tensor(column[order], device=device) for column in (data.users, data.indices))  # (e,)
        super().__init__(run, (users, items), data.group)
        self._sizes: list[int] = data.totals.partition_sizes.tolist()
        self._own = data.own_partitions

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
