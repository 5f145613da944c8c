"""The pairs that a process of several learns from, where none of them has all."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.data import splits
from spherec.data.ids import IdMap
from spherec.data.interactions import Interactions
from spherec.distributed.group import ProcessGroup
from spherec.distributed.partitions import PartitionedInteractions, Totals
from spherec.errors import ArgumentError


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
