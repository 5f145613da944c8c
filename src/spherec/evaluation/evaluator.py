"""Evaluate models: spherec's own, and any other by its lists, all in the same way."""

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypedDict, Unpack, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from spherec.data import splits
from spherec.data.interactions import Interactions
from spherec.data.splits import ColdFold
from spherec.errors import ArgumentError, DataError, check_count, check_number, quote, refuse_unknown
from spherec.evaluation.metrics import Formula, Metric, RankedLists, find_metrics
from spherec.evaluation.scores import Scores
from spherec.geometry import DenseVectors
from spherec.ranking import ExactRanker, Ranker, Ranking
from spherec.ranking.diversity import DiverseLister
from spherec.ranking.ranker import Indices, check_indices, refuse_idle_dial
from spherec.training.crew import Crew


class ItemLister(Protocol):
    """Anything that lists items for users.

    For `evaluate(only=…)`, `top` also takes `only=`: the only item indices that may be listed, as rankers do.
    """

    def top(self, users: NDArray[np.int64], k: int, *, without: Interactions | None = None) -> Ranking:
        """Return the k best items for user indices (B,), without those that the users have in `without`."""


@runtime_checkable
class Fitted(Protocol):
    """A model that knows its users and items by their ids, such as `CML`."""

    def ranker_for(self, train: Interactions, test: Interactions) -> ItemLister:
        """Return its lister under the indices of `train`; raise an error if it has learned from `test`."""


class EvaluationOptions(TypedDict, total=False):
    """Options of the lists that are scored."""

    only: Indices | None
    """The only items that may be listed, such as the cold items of a split; the held-out pairs must have no others. By
    default all items are ranked."""
    mainstream: float | None
    "Place of the dial of a model with reach; by default it stands as the model has it."
    diversity: float
    "Distance of the items of a list from each other, from 0, the default, to 1."
    crew: Crew | None
    "Processes that all call this alike: each ranks a share of the users, and has the scores of all."


def evaluate(
    model: DenseVectors | ItemLister | Fitted,
    train: Interactions,
    test: Interactions,
    *,
    k: int = 50,
    metrics: str | Iterable[str | Metric | Formula] | None = None,
    **options: Unpack[EvaluationOptions],
) -> Scores:
    """Score the model's k best items for each user, without their training items, against the held-out pairs of `test`.

    `train` and `test` share their indices, as the parts of a split do. The popularity of an item is the number of users
    who have it in `train`. `metrics` are names of built-in metrics and metrics of your own, by default all built-in.
    A pair that is in both parts is an error, because a user's training items are never listed. The options are `only`,
    `mainstream`, `diversity` and `crew`: see `EvaluationOptions`.
    """
    refuse_unknown("evaluate", options, EvaluationOptions)
    k, crew = check_count("k", k), options.get("crew")
    _check_parts(train, test)
    lister, chosen, users = _find_lister(model, train, test), find_metrics(metrics), np.flatnonzero(test.items_per_user)
    if diversity := options.get("diversity", 0.0):
        check_number("diversity", diversity, 0, 1)
        if not isinstance(lister, Ranker):
            raise ArgumentError(f"diversity has no effect on {type(lister).__name__}; leave it out")
        refuse_idle_dial(options.get("mainstream"), lister.vectors)
        lister = DiverseLister(lister, diversity)
    others = ("crew", "diversity")
    filters = {name: value for name, value in options.items() if name not in others and value is not None}
    if (only := options.get("only")) is not None:
        filters["only"] = _check_only(only, test)

    def ask(mine: NDArray[np.int64]) -> NDArray[np.int64]:
        return _check_lists(_ask(lister, mine, k, train, filters), len(mine), train.n_items, k)  # (b, K)

    lists = ask(users) if crew is None else crew.list_items(users, ask)  # (B, K)
    return Scores.compute(chosen, RankedLists.build(lists, users, train, test), test.n_users - len(users))


@dataclass(frozen=True)
class ColdScores:
    """Scores of a model on new items, on known ones, and on both."""

    cold: Scores
    "Only cold items are ranked, against the test pairs of cold items."
    warm: Scores
    "Only warm items are ranked, against the test pairs of warm items."
    all: Scores
    "All items are ranked, against all test pairs."


def evaluate_cold(
    model: DenseVectors | ItemLister | Fitted,
    fold: ColdFold,
    *,
    k: int = 50,
    metrics: str | Iterable[str | Metric | Formula] | None = None,
    **options: Unpack[EvaluationOptions],
) -> ColdScores:
    """Score the model on the cold items of a split by `splits.cold_items`, on the warm ones, and on all together.

    The options are those of `evaluate`, but for `only`.
    """
    chosen = find_metrics(metrics)  # it may be an iterator
    score_part = partial(evaluate, model, fold.train, k=k, metrics=chosen, **options)
    return ColdScores(
        cold=score_part(fold.cold, only=fold.cold_items),
        warm=score_part(fold.warm, only=fold.warm_items),
        all=score_part(fold.test),
    )


def _check_parts(train: Interactions, test: Interactions) -> None:
    """Raise an error unless these are parts of a split, of which the second has pairs."""
    if not (isinstance(train, Interactions) and isinstance(test, Interactions)):
        raise ArgumentError(f"train and test must be Interactions, got {quote(train)} and {quote(test)}; split some")
    if train.user_ids != test.user_ids or train.item_ids != test.item_ids:
        raise ArgumentError(
            "train and test must share their users and items; use the parts of one split, or splits.given"
        )
    if not len(test):
        raise DataError("there are no pairs to test on; give interactions with some")
    splits.check_disjoint(train, test)


def _check_only(only: Indices, test: Interactions) -> NDArray[np.int64]:
    """Return the items that may be listed; raise an `ArgumentError` if `test` holds others, which nobody could hit."""
    items = np.unique(check_indices(only, test.n_items, "only"))
    if others := int((~np.isin(test.indices, items)).sum()):
        raise ArgumentError(f"{others:,} pairs of test have items that are not in only; leave them out of test")
    return items


def _find_lister(model: DenseVectors | ItemLister | Fitted, train: Interactions, test: Interactions) -> ItemLister:
    """Return what lists items for the users of `train`."""
    if isinstance(model, Fitted):
        return model.ranker_for(train, test)
    if isinstance(model, DenseVectors):
        have, wanted = (model.n_users, model.n_items), (train.n_users, train.n_items)
        if have != wanted:
            raise ArgumentError(f"the model has {have} users and items, the data {wanted}; evaluate it on its own data")
        return ExactRanker(model)
    if not hasattr(model, "top"):
        raise ArgumentError(f"model must be a CML, DenseVectors, or have top(users, k, without=), got {quote(model)}")
    return model


def _ask(
    lister: ItemLister, users: NDArray[np.int64], k: int, train: Interactions, options: Mapping[str, Any]
) -> Ranking:
    """Return the lists (b, k) of users (b,), with options of spherec's own rankers where they are given."""
    if isinstance(lister, Ranker):
        refuse_idle_dial(options.get("mainstream"), lister.vectors)
    takes = inspect.signature(lister.top).parameters
    for name in options:
        if name not in takes and not any(each.kind is each.VAR_KEYWORD for each in takes.values()):
            raise ArgumentError(f"{name} has no effect on {type(lister).__name__}; leave {name} out")
    return lister.top(users, k, without=train, **options)


def _check_lists(ranking: Ranking, n_users: int, n_items: int, k: int) -> NDArray[np.int64]:
    """Return the first k of each list (B, K), filled up with -1; refuse lists that would be scored wrongly."""
    items = getattr(ranking, "items", None)
    if not isinstance(items, np.ndarray) or items.ndim != 2 or len(items) != n_users or items.dtype.kind not in "iu":
        raise DataError(
            f"top must return a spherec.ranking.Ranking whose items are an array of whole numbers, a row for each of "
            f"{n_users:,} users, got {quote(ranking if items is None else items)}"
        )
    lists = np.full((n_users, k), -1, dtype=np.int64)
    lists[:, : items.shape[1]] = items[:, :k]
    ascending = np.sort(lists, axis=1)
    if ascending.max(initial=-1) >= n_items:
        raise DataError(f"items must be indices below {n_items:,}, got {lists.max():,}; use those of the training data")
    if np.any((ascending[:, 1:] == ascending[:, :-1]) & (ascending[:, 1:] >= 0)):
        raise DataError("an item comes twice in one list; keep it once")
    return lists
