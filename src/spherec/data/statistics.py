"""A data set in a few numbers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class CountSummary:
    """Distribution of a count over users or items."""

    smallest: int
    median: float
    mean: float
    largest: int


@dataclass(frozen=True)
class Statistics:
    """Sizes of a data set. Users and items without interactions are not counted."""

    users: int
    items: int
    pairs: int
    density_percent: float
    "Interactions as a share of all possible pairs, in percent."
    items_per_user: CountSummary
    users_per_item: CountSummary
    top_percent_share: float
    "Share of the most popular hundredth of the items in all pairs, in percent."


def statistics(data: Any) -> Statistics:
    """Return the statistics of interactions, or of a folder of partitions, which is never in memory as a whole."""
    per_user, per_item = data.items_per_user, data.users_per_item
    per_user, per_item = per_user[per_user > 0], per_item[per_item > 0]
    top = np.sort(per_item)[::-1][: max(1, len(per_item) // 100)]
    return Statistics(
        users=len(per_user),
        items=len(per_item),
        pairs=data.n_pairs,
        density_percent=100 * data.n_pairs / max(1, len(per_user) * len(per_item)),
        items_per_user=_summarize(per_user),
        users_per_item=_summarize(per_item),
        top_percent_share=100 * float(top.sum()) / max(1, data.n_pairs),
    )


def _summarize(counts: NDArray[np.int64]) -> CountSummary:
    if not len(counts):
        return CountSummary(0, 0.0, 0.0, 0)
    return CountSummary(int(counts.min()), float(np.median(counts)), float(counts.mean()), int(counts.max()))
