"""Metrics of ranked lists. Each is written once: its name, its label, its unit and its formula.

A metric takes `RankedLists` and returns one value for each user (B,), or one number for all lists together. A metric of
your own is a function, or an object with the attributes of `Metric`:

    def first_hit(lists):
        return lists.hits[:, 0].astype(float)

    spherec.evaluate(model, train, test, metrics=["ndcg", first_hit])["first_hit"]
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spherec.data.events import pair_keys
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, quote, suggest
from spherec.lazy import Lazy
from spherec.ranking.ranker import split_blocks

Values = NDArray[np.float64]

_AT_ONCE = 20_000_000  # users of listed items that are held at once


@dataclass(frozen=True)
class RankedLists:
    """Lists of K items for B users, and what was held out of these users."""

    users: NDArray[np.int64]
    "(B,) user indices."
    items: NDArray[np.int64]
    "(B, K) item indices, the best first; -1 where a list has ended."
    hits: NDArray[np.bool_]
    "(B, K) True where the item was held out of the user."
    held_out: NDArray[np.int64]
    "(B,) number of items held out of each user, at least 1."
    popularity: NDArray[np.int64]
    "(I,) number of users who have each item in the training data."
    train: Interactions | None = None
    "The training data, if it is known."

    @classmethod
    def build(
        cls, items: NDArray[np.int64], users: NDArray[np.int64], train: Interactions, test: Interactions
    ) -> "RankedLists":
        """Compare the items (B, K) listed for users (B,) with those in `test`."""
        hits = mark_hits(items, users, test)
        return cls(users, items, hits, test.items_per_user[users], train.users_per_item, train)

    @property
    def k(self) -> int:
        """K, the length of the lists."""
        return int(self.items.shape[1])

    @property
    def n_items(self) -> int:
        """I, the size of the catalogue."""
        return len(self.popularity)

    @Lazy
    def lengths(self) -> NDArray[np.int64]:
        """(B,) number of items in each list."""
        return np.asarray((self.items >= 0).sum(1))

    @Lazy
    def listed_popularity(self) -> Values:
        """(B, K) popularity of each listed item; NaN where a list has ended."""
        return np.where(self.items >= 0, self.popularity[np.maximum(self.items, 0)], np.nan)


def mark_hits(items: NDArray[np.int64], users: NDArray[np.int64], held_out: Interactions) -> NDArray[np.bool_]:
    """Return (B, K) True where an item of the lists (B, K) of users (B,) is held out; -1 never is."""
    keys = pair_keys(held_out.users, held_out.indices, held_out.n_items)  # (E,) ascending
    wanted = pair_keys(users[:, None], items, held_out.n_items)  # (B, K)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.asarray((keys[place] == wanted) & (items >= 0))


class Metric(Protocol):
    """A measure of ranked lists.

    Optional attributes: `about`, a few words that explain the label; `lower_is_better`.
    """

    @property
    def name(self) -> str: ...  # key in summaries, tables, files and options, such as "ndcg"

    @property
    def label(self) -> str: ...  # heading for people, without the list length, such as "NDCG"

    @property
    def percent(self) -> bool: ...  # True if tables show it in percent

    def __call__(self, lists: RankedLists) -> Values | float:
        """Return a value for each user (B,), NaN for users who do not count, or one number for all lists."""


Formula = Callable[[RankedLists], Values | float]


@dataclass(frozen=True)
class FormulaMetric:
    """A metric made of a function and the words around it."""

    name: str
    label: str
    formula: Formula
    percent: bool = False
    about: str = ""
    lower_is_better: bool = False

    def __call__(self, lists: RankedLists) -> Values | float:
        """Apply the formula."""
        return self.formula(lists)


_METRICS: list[FormulaMetric] = []


def _metric(name: str, label: str, **words: Any) -> Callable[[Formula], FormulaMetric]:
    """Make a built-in metric of a formula."""

    def decorate(formula: Formula) -> FormulaMetric:
        _METRICS.append(FormulaMetric(name, label, formula, **words))
        return _METRICS[-1]

    return decorate


@_metric("map", "MAP", percent=True)
def average_precision(lists: RankedLists) -> Values:
    """Sum the precision down to each hit and divide by min(held out, K): AP@K, whose mean is MAP@K."""
    ranks = np.arange(1, lists.k + 1)  # (K,)
    precisions = np.cumsum(lists.hits, axis=1) / ranks  # (B, K)
    return np.asarray((precisions * lists.hits).sum(1) / np.minimum(lists.held_out, lists.k))


@_metric("ndcg", "NDCG", percent=True)
def ndcg(lists: RankedLists) -> Values:
    """Sum 1/log2(rank + 1) over hits and divide by the sum that min(held out, K) hits on top would give."""
    discount = 1 / np.log2(np.arange(2, lists.k + 2))  # (K,)
    ideal = np.cumsum(discount)[np.minimum(lists.held_out, lists.k) - 1]  # (B,)
    return np.asarray((lists.hits * discount).sum(1) / ideal)


@_metric("recall", "Recall", percent=True)
def recall(lists: RankedLists) -> Values:
    """Divide the hits by the items held out."""
    return np.asarray(lists.hits.sum(1) / lists.held_out)


@_metric("precision", "Precision", percent=True)
def precision(lists: RankedLists) -> Values:
    """Divide the hits by the K places."""
    return np.asarray(lists.hits.mean(1, dtype=np.float64))


@_metric("hit_rate", "HitRate", percent=True)
def hit_rate(lists: RankedLists) -> Values:
    """Return 1 for users with a hit, else 0."""
    return np.asarray(lists.hits.any(1), dtype=np.float64)


@_metric("mrr", "MRR", percent=True)
def reciprocal_rank(lists: RankedLists) -> Values:
    """Return 1 / rank of the first hit, 0 without a hit: its mean is MRR@K."""
    return np.asarray(lists.hits.any(1) / (lists.hits.argmax(1) + 1.0))


@_metric("mmr", "MMR", about="median popularity of a list", lower_is_better=True)
def median_popularity(lists: RankedLists) -> Values:
    """Return the median popularity of the listed items, NaN for an empty list: its mean is MMR@K."""
    ascending = np.sort(lists.listed_popularity, axis=1)  # (B, K) NaN last
    lengths = lists.lengths[:, None]  # (B, 1)
    middle = np.concatenate(((lengths - 1) // 2, lengths // 2), axis=1).clip(0, lists.k - 1)  # (B, 2)
    return np.asarray(np.take_along_axis(ascending, middle, axis=1).mean(1))


@_metric("popularity", "Popularity", about="mean popularity of a list", lower_is_better=True)
def mean_popularity(lists: RankedLists) -> Values:
    """Return the mean popularity of the listed items, NaN for an empty list."""
    total = np.nansum(lists.listed_popularity, axis=1)  # (B,)
    return np.where(lists.lengths > 0, total / np.maximum(lists.lengths, 1), np.nan)


@_metric("coverage", "Coverage", about="share of the catalogue in any list")
def coverage(lists: RankedLists) -> float:
    """Return the share of all items that are in any list."""
    return len(np.unique(lists.items[lists.items >= 0])) / lists.n_items


@_metric("gini", "Gini", about="unevenness of the lists over the catalogue", lower_is_better=True)
def gini(lists: RankedLists) -> float:
    """Return how unevenly lists use the items: 0 if all come equally often, near 1 if a few take everything."""
    counts = np.sort(np.bincount(lists.items[lists.items >= 0], minlength=lists.n_items))  # (I,) ascending
    ranks = np.arange(1, lists.n_items + 1)
    total = counts.sum()
    return float((2 * ranks - lists.n_items - 1) @ counts / (lists.n_items * total)) if total else 0.0


@_metric("novelty", "Novelty", about="bits of surprise of an item")
def novelty(lists: RankedLists) -> Values:
    """Return the mean of −log2(share of users who have the item) over the listed items, NaN for an empty list."""
    n_users = np.nan if lists.train is None else lists.train.n_users
    bits = -np.log2(np.maximum(lists.listed_popularity, 1) / n_users)  # (B, K) NaN where a list has ended
    return np.where(lists.lengths > 0, np.nansum(bits, axis=1) / np.maximum(lists.lengths, 1), np.nan)


@_metric("ild", "ILD", about="distance of the items of a list from each other")
def intra_list_distance(lists: RankedLists) -> Values:
    """Return the mean over pairs of listed items of 1 − cosine of their users in training, NaN below two items.

    The cosines of all pairs of a list add up to |Σ r|² − Σ |r|², where r is the row of users of an item, of length 1.
    """
    distances = np.full(len(lists.items), np.nan)
    if lists.train is None:
        return distances
    rows = lists.train.matrix.T.tocsr().astype(np.float64)  # (I, U)
    rows.data /= np.sqrt(np.repeat(lists.popularity, lists.popularity))
    own = lists.popularity > 0  # (I,) |r|²
    most = int(np.nansum(lists.listed_popularity, axis=1).max(initial=1))
    for block in split_blocks(len(distances), max(_AT_ONCE // max(most, 1), 1)):
        items, lengths = lists.items[block], lists.lengths[block].astype(np.float64)  # (b, K), (b,)
        listed = items[items >= 0]
        starts = np.concatenate(([0], np.cumsum(lists.lengths[block])))
        choice = sp.csr_matrix((np.ones(len(listed)), listed, starts), shape=(len(items), lists.n_items))
        cosines = (choice @ rows).power(2).sum(1).A1 - choice @ own  # (b,) of all pairs, twice
        distances[block] = np.where(lengths > 1, 1 - cosines / np.maximum(lengths * (lengths - 1), 1), np.nan)
    return distances


METRICS = tuple(_METRICS)
"""The built-in metrics, in the order of tables."""


def find_metric(metric: str | Metric | Formula) -> Metric:
    """Return a built-in metric by its name, and any metric of the user's own as a `Metric`."""
    named = {built_in.name: built_in for built_in in METRICS}
    if isinstance(metric, str):
        if metric not in named:
            raise ArgumentError(
                f"there is no metric called {quote(metric)}{suggest(metric, named)}; there are {', '.join(named)}"
            )
        return named[metric]
    is_object = callable(metric) and not isinstance(metric, type)
    if is_object and all(hasattr(metric, attribute) for attribute in ("name", "label", "percent")):
        own: Metric = metric  # type: ignore[assignment]
    else:
        name = getattr(metric, "__name__", "")
        if not is_object or not name.isidentifier():
            raise ArgumentError(
                f"a metric must be a name, a function written with def, or an object with name, label and percent, got "
                f"{quote(name or metric)}"
            )
        own = FormulaMetric(name, name.replace("_", " "), metric)
    if named.get(own.name, own) is not own:
        raise ArgumentError(f"{quote(own.name)} is a built-in metric; give yours another name")
    return own


def find_metrics(metrics: str | Iterable[str | Metric | Formula] | None) -> tuple[Metric, ...]:
    """Return these metrics, by default all built-in ones; no two may share a name. A string is one name."""
    if metrics is None:
        return METRICS
    found = tuple(map(find_metric, [metrics] if isinstance(metrics, str) else metrics))
    names = [metric.name for metric in found]
    if len(set(names)) < max(len(names), 1):
        raise ArgumentError(f"metrics must be some with different names, got {', '.join(names) or 'none'}")
    return found


def label_at(metric: Metric, k: int, *, explain: bool = False) -> str:
    """Return the label with the list length, such as NDCG@50; with `explain`, followed by what it means."""
    about = getattr(metric, "about", "") if explain else ""
    return f"{metric.label}@{k}{', ' if about else ''}{about}"


def format_metric(metric: Metric, value: float) -> str:
    """Return a value as tables show it: 0.1283 as "12.83 %" if the metric is in percent."""
    return f"{100 * value:.2f} %" if metric.percent else f"{value:.4f}"


def compute_metric(metric: Metric, lists: RankedLists) -> Values | float:
    """Return the metric's value for each user (B,), or its one number; raise an `ArgumentError` for anything else."""
    values = np.asarray(metric(lists))
    if values.shape not in ((), (len(lists.users),)) or values.dtype.kind not in "biuf":
        raise ArgumentError(
            f"metric {quote(metric.name)} returned {values.dtype} of shape {values.shape}; it must return one number "
            f"for each user, of shape ({len(lists.users)},), or one for all"
        )
    return values.astype(np.float64) if values.ndim else float(values)


def mean_of(result: Values | float) -> float:
    """Return the mean of a metric's values (B,) that are not NaN, NaN if there are none; a number as it is."""
    values = np.atleast_1d(result)
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else float("nan")
