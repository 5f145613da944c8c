"""The pairs that a process of several learns from, where none of them has all, and their batches."""

from dataclasses import replace
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.data import splits
from spherec.data.ids import IdMap
from spherec.data.interactions import Interactions
from spherec.distributed.group import ProcessGroup
from spherec.distributed.partitions import PartitionedInteractions, Totals
from spherec.distributed.table import ShareGenerator
from spherec.errors import ArgumentError
from spherec.training.step import Batches, Pairs, Run


class HeldPairs:
    """The pairs that one process holds of a partitioned data set, and facts about those of all.

    It stands where training asks for `Interactions`. Users of other processes have no items here, and nobody has an id.
    """

    def __init__(self, own: Interactions, totals: Totals, source: PartitionedInteractions, group: ProcessGroup) -> None:
        self.own, self.totals, self.source, self.group = own, totals, source, group
        self.n_users, self.n_items, self.weights = own.n_users, own.n_items, own.weights
        self.indptr, self.indices, self.users = own.indptr, own.indices, own.users  # (U + 1,), (e,), (e,)
        self.items_per_user, self.items_of = own.items_per_user, own.items_of
        # Of all processes
        self.n_pairs = int(totals.partition_sizes.sum())
        self.users_per_item, self.active_users = totals.users_per_item, totals.active_users
        weights = None if own.weights is None else totals.checksum
        self.checksums = {"pairs": totals.checksum, "ids": totals.checksum, "weights": weights}

    def __len__(self) -> int:
        return len(self.own)

    @property
    def item_ids(self) -> IdMap:
        """Raise an `ArgumentError`: what needs the ids of items needs the whole data set."""
        raise ArgumentError(
            "partitions are trained on without the ids of items, so without item_features and names; give "
            f"PartitionedInteractions.open({str(self.source.path)!r}).read() in one process"
        )

    def with_item_names(self, names: object) -> Interactions:
        """Raise the same error."""
        raise AssertionError(self.item_ids, names)

    @property
    def own_partitions(self) -> range:
        """Numbers of the partitions whose pairs are held."""
        return range(self.group.rank, len(self.totals.partition_sizes), self.group.size)

    def partition_of_pairs(self) -> NDArray[np.int32]:
        """Return the partition (e,) of each pair that this process holds."""
        n = len(self.totals.partition_sizes)
        return (self.users + self.n_items % n) % np.int32(n)

    def choose_share(self, share: float, seed: int) -> NDArray[np.bool_]:
        """Return which pairs (e,) are a share of each user's, the same ones in any number of processes."""
        partition, chosen = self.partition_of_pairs(), np.zeros(len(self), np.bool_)
        for number in self.own_partitions:
            inside = partition == number
            chosen[inside] = splits.choose_share(self.own.filter(inside), share, seed)
        return chosen

    def filter(self, mask: NDArray[np.bool_]) -> "HeldPairs":
        """Return the pairs where `mask` (e,) is true; all processes do so together."""
        own, partition = self.own.filter(mask), self.partition_of_pairs()

        def count(numbers: NDArray[np.int32], n: int) -> NDArray[np.int64]:
            """Return how often each of n numbers is left in all processes (n,)."""
            counts = torch.as_tensor(np.bincount(numbers[mask], minlength=n), device=self.group.device)
            return self.group.add_up(counts).cpu().numpy()

        sizes = count(partition, len(self.totals.partition_sizes))
        totals = replace(self.totals, users_per_item=count(self.indices, self.n_items), partition_sizes=sizes)
        return HeldPairs(own, totals, self.source, self.group)


def hold(source: PartitionedInteractions, group: ProcessGroup) -> HeldPairs:
    """Read the pairs that this process of a group holds."""
    return HeldPairs(source.read_share(group.rank, group.size), source.totals, source, group)


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
        mine = ((users + self._run.n_items) % self._group.size == self._group.rank).nonzero()[:, 0]  # (b,)
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
