"""Lists of another program, and models under the indices of other data: both are scored like our own."""

from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.data.events import Events
from spherec.data.interactions import Interactions
from spherec.errors import DataError, quote
from spherec.geometry import DenseVectors, Vectors
from spherec.ranking import ExactRanker, Ranking


class GivenLists:
    """Ranked lists of another program for the users and items of some data. Users without a list have an empty one."""

    def __init__(self, items: NDArray[np.int64]) -> None:
        self._items = items  # (U, K) -1 for items that the data does not know, and past the end

    @classmethod
    def from_events(cls, events: Events, data: Interactions) -> Self:
        """Build lists from rows of user, item and rank (the value; 1 is the best), by external ids.

        Users that the data does not know are skipped. Items that it does not know keep their rank, as misses.
        """
        if events.values is None:
            raise DataError("the lists have no column of ranks; name it")
        users = data.user_ids.find(events.user_ids)[events.users]  # (E,)
        items = data.item_ids.find(events.item_ids)[events.items]  # (E,)
        known = users >= 0
        users, items, ranks = users[known], items[known], events.values[known]
        order = np.lexsort((ranks, users))
        users, items = users[order], items[order]
        lengths = np.bincount(users, minlength=data.n_users)  # (U,)
        place = np.arange(len(users)) - np.repeat(np.cumsum(lengths) - lengths, lengths)  # (E,) in the user's list
        lists = np.full((data.n_users, max(int(lengths.max(initial=0)), 1)), -1, dtype=np.int64)
        lists[users, place] = items
        return cls(lists)

    def top(self, users: NDArray[np.int64], k: int, *, without: Interactions | None = None) -> Ranking:  # noqa: ARG002
        """Return the first k of each user's list (B, ≤ k), as they are."""
        items = self._items[users, :k]
        return Ranking(items, np.where(items >= 0, 0.0, -np.inf).astype(np.float32))


def align(vectors: Vectors, own: Interactions, data: Interactions) -> ExactRanker:
    """Return a ranker of a model's vectors under the indices of `data`, by external ids; `own` has the model's ids.

    Items that the model does not know are never listed. Users that it does not know raise a `DataError`.
    """
    users, items = own.user_ids.find(data.user_ids), own.item_ids.find(data.item_ids)
    strangers = np.flatnonzero(users < 0)
    if len(strangers):
        first = ", ".join(quote(data.user_ids[int(user)]) for user in strangers[:3])
        raise DataError(
            f"the model does not know {len(strangers):,} of the users, {first} among them; evaluate it on the data "
            "that it was trained on"
        )
    user_index, item_index = (torch.as_tensor(np.maximum(index, 0), device=vectors.device) for index in (users, items))
    reach = vectors.reach  # (I,)
    aligned = DenseVectors(
        vectors.users(user_index),
        vectors.items(item_index),
        vectors.constraint,
        None if reach is None else reach[item_index][:, None],
        vectors.mainstream,
    )
    return ExactRanker(aligned, listed=items >= 0)
