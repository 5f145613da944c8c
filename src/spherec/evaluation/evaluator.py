"""The one way in which every model is evaluated: ours, and those of others by their lists."""

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, DataError
from spherec.evaluation import metrics
from spherec.evaluation.scores import PerUser, Scores
from spherec.geometry import DenseVectors
from spherec.ranking import ExactRanker, Ranking


class Ranker(Protocol):
    """Anything that lists items for users."""

    def top(self, users: NDArray[np.int64], k: int, *, without: Interactions | None = None) -> Ranking:
        """The k best items for user indices (B,), those that the users have in `without` left out."""
        ...


@runtime_checkable
class Fitted(Protocol):
    """A model that knows its users and items by their ids, such as `CML`."""

    def ranker_for(self, train: Interactions, test: Interactions) -> Ranker:
        """Itself under the indices of `train`; an error where it has learned from `test`."""
        ...


def evaluate(model: DenseVectors | Ranker | Fitted, train: Interactions, test: Interactions, *, k: int = 50) -> Scores:
    """Score the model's top k over all items, the users' training items excluded, against the held-out pairs of `test`.

    `train` and `test` share their indices, as the parts of a split do. The popularity of an item is the number of users
    who have it in `train`.
    """
    if train.user_ids != test.user_ids or train.item_ids != test.item_ids:
        raise ArgumentError(
            "train and test must share their users and items; use the parts of one split, or splits.given"
        )
    if not len(test):
        raise DataError("there are no pairs to test on; give interactions with some")
    users = np.flatnonzero(test.items_per_user)  # (B,)
    return score(_ranker(model, train, test).top(users, k, without=train), users, train, test, k=k)


def score(
    ranking: Ranking, users: NDArray[np.int64], train: Interactions, test: Interactions, *, k: int | None = None
) -> Scores:
    """The scores of a ranking (B, K), cut to length k if one is given, for users (B,) with a pair in `test` each."""
    k = ranking.items.shape[1] if k is None else k
    items = _lists(ranking.items, len(users), train.n_items, k)  # (B, K)
    hit = metrics.hits(items, users, test)  # (B, K)
    held_out = test.items_per_user[users]  # (B,)
    per_user = PerUser(
        users=users,
        ap=metrics.average_precision(hit, held_out),
        ndcg=metrics.ndcg(hit, held_out),
        recall=metrics.recall(hit, held_out),
        precision=metrics.precision(hit),
        hit_rate=metrics.hit_rate(hit),
        reciprocal_rank=metrics.reciprocal_rank(hit),
        median_popularity=metrics.median_popularity(items, train.users_per_item),
        mean_popularity=metrics.mean_popularity(items, train.users_per_item),
    )
    return Scores(
        k=k,
        per_user=per_user,
        coverage=metrics.coverage(items, train.n_items),
        gini=metrics.gini(items, train.n_items),
        users_without=test.n_users - len(users),
    )


def _ranker(model: DenseVectors | Ranker | Fitted, train: Interactions, test: Interactions) -> Ranker:
    if isinstance(model, Fitted):
        return model.ranker_for(train, test)
    if not isinstance(model, DenseVectors):
        return model
    for name, rows, count in (("users", model.user_table, train.n_users), ("items", model.item_table, train.n_items)):
        if len(rows) != count:
            raise ArgumentError(f"the model has {len(rows):,} {name}, the data {count:,}; evaluate it on its own data")
    return ExactRanker(model)


def _lists(items: NDArray[np.int64], n_users: int, n_items: int, k: int) -> NDArray[np.int64]:
    """The first k of each list (B, K), filled up with -1; an error for lists that would be scored wrongly."""
    if k < 1:
        raise ArgumentError(f"k must be a whole number >= 1, got {k}")
    if items.ndim != 2 or len(items) != n_users:
        raise DataError(f"there must be one list for each of {n_users:,} users, got an array of shape {items.shape}")
    lists = np.full((n_users, k), -1, dtype=np.int64)
    lists[:, : items.shape[1]] = items[:, :k]
    if lists.max() >= n_items:
        raise DataError(f"items must be indices below {n_items:,}, got {lists.max():,}; use those of the training data")
    ascending = np.sort(lists, axis=1)
    if np.any((ascending[:, 1:] == ascending[:, :-1]) & (ascending[:, 1:] >= 0)):
        raise DataError("an item comes twice in one list; keep it once")
    return lists
