"""What a trained model is asked: recommend, similar, explain, score. External ids in and out."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike

import numpy as np
import torch
from numpy.typing import NDArray

from spherec import artifact
from spherec.artifact import Artifact
from spherec.data import splits
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, DataError, TrainingError
from spherec.evaluation.foreign import aligned
from spherec.geometry import DenseVectors, squared_distance
from spherec.ranking import ExactRanker
from spherec.recommender.asking import Ids, Unknown, check_k, indices_of, is_several
from spherec.recommender.lists import Lists, Reason, Recommended, SimilarItem, SimilarUser
from spherec.recommender.neighbours import Neighbours, nearest
from spherec.recommender.placing import Placing
from spherec.recommender.searching import ItemSearch
from spherec.training import History


class Answers:
    """A trained model, and the questions it answers."""

    def __init__(self, made: Artifact | None) -> None:
        self._artifact = made

    def recommend(
        self,
        users: Ids,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        items: Ids | None = None,
        exclude: Ids | None = None,
        unknown: Unknown = "error",
    ) -> Lists[Recommended]:
        """The k nearest items of a user, or of each of several.

        Left out are items that the user has (unless `exclude_seen` is false), all but `items` if some are given, and
        those in `exclude`. Each user gets exactly k, or all that are left where those are fewer. Ids that the model
        does not know are an error, or passed over with `unknown="skip"`.
        """
        check_k(k)
        index = indices_of(users, self.data.user_ids, "user", unknown)  # (B,)
        near = self._search.nearest(
            self.vectors.users(torch.from_numpy(index)),
            k,
            without=[self.data.items_of(user) for user in index] if exclude_seen else None,
            only=self._indices_if(items, unknown),
            exclude=self._indices_if(exclude, unknown),
        )
        return Lists(Recommended, self._of_items(near, "item") | {"user": self._ids_of_users(index[near.point])})

    def recommend_for(
        self,
        items: Ids,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        among: Ids | None = None,
        exclude: Ids | None = None,
        unknown: Unknown = "error",
    ) -> Lists[Recommended]:
        """The k nearest items of a user whom the model has never seen, placed by the items that she has.

        `among` is what may be recommended, if not everything; the rest is as in `recommend`.
        """
        check_k(k)
        own = np.unique(indices_of(items, self.data.item_ids, "item", unknown)).astype(np.int32)  # (n,)
        if not len(own):
            raise ArgumentError("recommend_for needs at least one item that the model knows, got none")
        near = self._search.nearest(
            self._placing.place(own)[None],
            k,
            without=[own] if exclude_seen else None,
            only=self._indices_if(among, unknown),
            exclude=self._indices_if(exclude, unknown),
        )
        return Lists(Recommended, self._of_items(near, "item") | {"user": [None] * len(near.index)})

    def similar_items(self, items: Ids, k: int = 10, *, unknown: Unknown = "error") -> Lists[SimilarItem]:
        """The k items nearest to an item, or to each of several; itself is not among them."""
        check_k(k)
        index = indices_of(items, self.data.item_ids, "item", unknown)  # (B,)
        near = self._search.nearest(self.vectors.items(torch.from_numpy(index)), k, without=list(index[:, None]))
        return Lists(SimilarItem, self._of_items(near, "similar") | {"item": self._ids_of_items(index[near.point])})

    def similar_users(self, users: Ids, k: int = 10, *, unknown: Unknown = "error") -> Lists[SimilarUser]:
        """The k users nearest to a user, or to each of several; the user herself is not among them."""
        check_k(k)
        index = indices_of(users, self.data.user_ids, "user", unknown)  # (B,)
        everybody = ExactRanker(replace(self.vectors, item_table=self.vectors.user_table))
        near = nearest(everybody, self.vectors.users(torch.from_numpy(index)), k, without=list(index[:, None]))
        columns = {"user": self._ids_of_users(index[near.point]), "similar": self._ids_of_users(near.index)}
        return Lists(SimilarUser, columns | {"rank": near.rank.tolist(), "score": near.score.tolist()})

    def explain(self, user: Ids, item: Ids, k: int = 5) -> Lists[Reason]:
        """Why this item for this user: the k of the user's own items that lie nearest to it."""
        check_k(k)
        if is_several(user) or is_several(item):
            raise ArgumentError("explain is about one user and one item; ask once for each pair")
        who = int(indices_of(user, self.data.user_ids, "user", "error")[0])
        what = indices_of(item, self.data.item_ids, "item", "error")  # (1,)
        own = np.zeros(self.data.n_items, dtype=bool)
        own[self.data.items_of(who)] = True
        own[what] = False
        near = nearest(ExactRanker(self.vectors, listed=own), self.vectors.items(torch.from_numpy(what)), k)
        same = {"user": self._ids_of_users(np.full(len(near.index), who)), "item": self._ids_of_items(what[near.point])}
        return Lists(Reason, self._of_items(near, "because") | same)

    def score(self, users: Ids, items: Ids) -> NDArray[np.float32]:
        """How near pairs of users and items are (n,): 1 − d²/2, on the sphere the dot product.

        Users and items are of the same length, or one of them is a single id.
        """
        who = indices_of(users, self.data.user_ids, "user", "error")
        what = indices_of(items, self.data.item_ids, "item", "error")
        try:
            pairs = [torch.from_numpy(index.copy()) for index in np.broadcast_arrays(who, what)]  # (n,), (n,)
        except ValueError:
            raise ArgumentError(
                f"users and items must be as many, or one of them single, got {len(who)} and {len(what)}"
            ) from None
        return (1 - squared_distance(self.vectors.users(pairs[0]), self.vectors.items(pairs[1])) / 2).numpy()

    @property
    def data(self) -> Interactions:
        """The users and items with ids and names, and what each user has."""
        return self._made.data

    @property
    def vectors(self) -> DenseVectors:
        """Of all users and items."""
        return self._made.vectors

    @property
    def history(self) -> History:
        """What happened in training, epoch by epoch."""
        return self._made.history

    def ranker_for(self, train: Interactions, test: Interactions) -> ExactRanker:
        """What `evaluate` ranks with, under the indices of `train`; an error where the model learned from `test`."""
        if splits.pairs_in_both(self.data, test):
            raise DataError("the model was trained on pairs that are to test it; train it on the train part alone")
        return aligned(self.vectors, self.data, train)

    def save(self, path: str | PathLike[str]) -> None:
        """Write one self-contained file, whole or not at all."""
        artifact.save(path, self._made)

    @property
    def _made(self) -> Artifact:
        if self._artifact is None:
            raise TrainingError("the model is not trained yet; call fit, or spherec.load a file")
        return self._artifact

    def _set(self, made: Artifact) -> None:
        """Answer by another model; an index of the one before no longer fits."""
        self._artifact = made
        for derived in ("_placing", "_search"):
            self.__dict__.pop(derived, None)

    @cached_property
    def _search(self) -> ItemSearch:
        return ItemSearch(self.vectors)

    @cached_property
    def _placing(self) -> Placing:
        return Placing(self.vectors, self.data, self._made.config)

    def _indices_if(self, items: Ids | None, unknown: Unknown) -> NDArray[np.int64] | None:
        """The indices of item ids, where some are given."""
        return None if items is None else indices_of(items, self.data.item_ids, "item", unknown)

    def _of_items(self, near: Neighbours, role: str) -> dict[str, Sequence[object]]:
        """The columns of neighbours that are items; `role` is what to call their ids."""
        names = self.data.item_names
        return {
            "rank": near.rank.tolist(),
            role: self._ids_of_items(near.index),
            "name": [None if names is None else names[item] for item in near.index.tolist()],
            "score": near.score.tolist(),
        }

    def _ids_of_users(self, index: NDArray[np.int64]) -> list[Hashable]:
        return self.data.user_ids.array[index].tolist()  # type: ignore[no-any-return]

    def _ids_of_items(self, index: NDArray[np.int64]) -> list[Hashable]:
        return self.data.item_ids.array[index].tolist()  # type: ignore[no-any-return]
