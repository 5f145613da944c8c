"""Validation during training: pairs held out, and one number for how good the vectors are."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.data import splits
from spherec.data.interactions import Interactions
from spherec.data.splits import Fold
from spherec.distributed.group import ProcessGroup
from spherec.distributed.partitions import HeldInteractions
from spherec.errors import ArgumentError, DataError
from spherec.evaluation.metrics import Formula, Metric, RankedLists, Values, compute_metric, find_metric, mean_of
from spherec.geometry import DenseVectors, Vectors
from spherec.ranking import ExactRanker, Ranking
from spherec.ranking.ranker import LeftOut
from spherec.training.config import Training

VALIDATION_METRIC = "NDCG@50"
"""Name of the metric that `Validation` computes by default."""


def validation_part(
    data: Interactions, share: float, *, seed: int, otherwise: str = "give data in which users have more items"
) -> Fold:
    """Split off a share of each user's items to validate on.

    `otherwise` says in the error what the caller can do if no share holds anything out.
    """
    fold = splits.ratio(data, share, seed=seed)
    if not len(fold.test):
        if data.items_per_user.max(initial=0) < 2:
            raise DataError(f"no user has two items, so none can be held out to choose on; {otherwise}")
        raise ArgumentError(f"validation {share:g} holds nothing out, because no user has enough items; raise it")
    return fold


def hold_out(
    data: Interactions, config: Training, share: float | None, group: ProcessGroup | None = None
) -> tuple[Interactions, "Validation | None"]:
    """Return the pairs to learn from and the validation on the others, None if nothing is held out.

    Args:
        data: All pairs, or those that this process holds.
        config: How the model is trained; its seed decides which pairs are held out.
        share: Share of each user's items to hold out, 0 for none; None is `default_share(config)`.
        group: Processes that train together.
    """
    share = default_share(config) if share is None else share
    if share == 0:
        return data, None
    check_validation_share(share)
    if group is not None and isinstance(data, HeldInteractions):
        fold = _split_held(data, share, config.seed, group)
    else:
        otherwise = "train on everything: validation=0 with a number of epochs (--validation 0 --epochs N)"
        fold = validation_part(data, share, seed=config.seed, otherwise=otherwise)
    return fold.train, Validation(fold.train, fold.test, group=group)


def _split_held(data: HeldInteractions, share: float, seed: int, group: ProcessGroup) -> Fold:
    """Split off a share of each user's items; which ones does not depend on the number of processes."""
    partition = data.partition_of_pairs()  # (e,)
    tested = np.zeros(len(data), np.bool_)
    for number in range(group.rank, data.n_partitions, group.size):
        inside = partition == number
        tested[inside] = splits.choose_share(data.filter(inside), share, seed)

    def count(numbers: NDArray[np.int32], n: int) -> NDArray[np.int64]:
        """Return how often each of n numbers is tested in all processes (n,)."""
        counts = torch.as_tensor(np.bincount(numbers[tested], minlength=n), device=group.device)
        return group.add_up(counts).cpu().numpy()

    items, sizes = count(data.indices, data.n_items), count(partition, data.n_partitions)
    if not sizes.sum():
        raise ArgumentError(f"validation {share:g} holds nothing out, because no user has enough items; raise it")
    whole = data.totals
    left = replace(whole, users_per_item=whole.users_per_item - items, partition_sizes=whole.partition_sizes - sizes)
    taken = replace(whole, users_per_item=items, partition_sizes=sizes)
    return Fold(data.select(~tested, left), data.select(tested, taken))


def default_share(config: Training) -> float:
    """Return the share to hold out by default: 5 %, or 0 with a schedule, because then there is no epoch to choose."""
    return 0.05 if config.optimizer.schedule == "constant" else 0.0


def check_validation_share(share: float) -> None:
    """Raise an `ArgumentError` unless the share is between 0 and 1."""
    if not 0 < share < 1:
        raise ArgumentError(f"validation must be 0 or a share between 0 and 1, got {share:g}")


class Validation:
    """A metric on held-out pairs, by default NDCG@K: the mean over users with held-out pairs.

    All items are ranked except the training items of the user. In a `group` of processes, each ranks the users whose
    vectors it holds, by a copy of all item vectors.
    """

    def __init__(
        self,
        train: Interactions,
        held_out: Interactions,
        *,
        k: int = 50,
        metric: str | Metric | Formula = "ndcg",
        group: ProcessGroup | None = None,
    ) -> None:
        if not held_out.n_pairs:
            raise DataError("there are no pairs held out to validate on; hold out more")
        self._train = train
        self._held_out = held_out
        self._k = k
        self._metric = find_metric(metric)
        self._group = group
        self._users = np.flatnonzero(held_out.items_per_user)  # (B,)
        if group is not None:
            self._users = self._users[(self._users + train.n_items) % group.size == group.rank]

    def __call__(self, vectors: Vectors) -> float:
        """Return the metric of these vectors."""
        if self._group is None:
            return mean_of(self._measure(ExactRanker(vectors).top(self._users, self._k, without=self._train)))
        queries = vectors.users(torch.as_tensor(self._users, device=vectors.device)).cpu().numpy()  # (B, D)
        left_out = LeftOut.of_users(self._users, self._train)
        values = self._measure(ExactRanker(_copy_items(vectors)).top_of(queries, self._k, without=left_out))
        if np.ndim(values) != 1:
            raise ArgumentError(
                f"the metric {self._metric.name} has no values of single users, which processes could add up; choose "
                "another, or validate in one process"
            )
        values = np.asarray(values)[~np.isnan(values)]
        sums = torch.tensor([values.sum(), len(values)], dtype=torch.float64, device=self._group.device)
        total, count = self._group.add_up(sums).tolist()
        return float(total / count) if count else float("nan")

    def _measure(self, ranking: Ranking) -> Values | float:
        return compute_metric(self._metric, RankedLists.build(ranking.items, self._users, self._train, self._held_out))


def _copy_items(vectors: Vectors) -> DenseVectors:
    """Return a copy of the vectors of all items, without users."""
    items, first = torch.empty(vectors.n_items, vectors.dim, device=vectors.device), 0  # (I, D)
    for block in vectors.item_blocks():  # (b, D)
        items[first : first + len(block)] = block
        first += len(block)
    each = None if vectors.reach is None else vectors.reach[:, None]  # (I, 1)
    return DenseVectors(items[:0], items, vectors.constraint, each, vectors.mainstream)
