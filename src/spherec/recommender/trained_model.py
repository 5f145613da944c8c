"""A trained model and the questions it answers: recommend, similar, explain, score. External ids in and out."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.artifact import Artifact
from spherec.data import splits
from spherec.data.ids import Ids, Unknown, is_several, list_ids
from spherec.data.interactions import Interactions
from spherec.data.output_files import refuse_unwritable
from spherec.device import ProcessLock, settle_thread
from spherec.errors import ArgumentError, DataError, TrainingError
from spherec.evaluation.foreign import align
from spherec.geometry import DenseVectors
from spherec.ranking import ExactRanker, Ranker, Ranking
from spherec.ranking.index_file import IndexFiles
from spherec.ranking.ranker import check_k
from spherec.recommender import results_file
from spherec.recommender.results import Reason, Recommended, Results, SimilarItem, SimilarUser, tabulate
from spherec.recommender.state import ModelState, Query, to_nearness
from spherec.training import History

if TYPE_CHECKING:
    from spherec.ranking.usearch import Hnsw  # an extra

_REMEDIES = {
    "user": "place new users with recommend_for or fold_in, or skip them with unknown='skip'",
    "item": "learn new items with partial_fit, add them by their features with add_items, or skip them with "
    "unknown='skip'",
}
_REMEDY_OF_PART = "another part of the model may have it: ask that one, or skip it with unknown='skip'"


class TrainedModel:
    """A trained model and the questions it answers.

    Threads may ask while another one trains: every answer comes from one version of the model, the last one that was
    complete when the question was asked. Pickles and copies of a model answer alike, through the same index.
    """

    def __init__(self, state: ModelState | None = None) -> None:
        self._current = state
        self._writing = ProcessLock()  # one change at a time; readers never wait

    def recommend(
        self,
        users: Ids,
        k: int = 10,
        *,
        only: Ids | None = None,
        exclude: Ids | None = None,
        exclude_seen: bool = True,
        mainstream: float | None = None,
        unknown: Unknown = "error",
    ) -> Results[Recommended]:
        """Return the k nearest items of a user, or of each of several users.

        Args:
            users: One user id or several.
            k: Length of each list. A list is shorter only if fewer items are left.
            only: Items that may be recommended; by default all.
            exclude: Items that must not be recommended.
            exclude_seen: Leave out the items that the user has.
            mainstream: Share of popularity that counts, for a model with reach: 1 gives the most popular lists, 0
                counts none, below 0 lists the long tail. By default as the model's settings say.
            unknown: "error" raises an `UnknownIdError` for ids that the model does not know, "skip" ignores them.
        """
        state = self._state
        index = look_up(users, state, "user", unknown)  # (B,)
        query = _ask(state, k, only, exclude, exclude_seen, mainstream, unknown)
        ranking = state.rank([query._replace(user=user) for user in index.tolist()])
        return tabulate(Recommended, "item", ranking, state.data, user=state.data.user_ids.array[index])

    def recommend_for(
        self,
        items: Ids,
        k: int = 10,
        *,
        only: Ids | None = None,
        exclude: Ids | None = None,
        exclude_seen: bool = True,
        mainstream: float | None = None,
        unknown: Unknown = "error",
    ) -> Results[Recommended]:
        """Return the k nearest items of a user whom the model has never seen, placed by the items that they have.

        Args:
            items: The items that the user has.
            k: As in `recommend`, like all that follow.
            only: Items that may be recommended.
            exclude: Items that must not be recommended.
            exclude_seen: Leave out `items`.
            mainstream: Share of popularity that counts.
            unknown: Treatment of unknown ids.
        """
        state = self._state
        own = look_up(items, state, "item", unknown)  # (n,)
        query = _ask(state, k, only, exclude, exclude_seen, mainstream, unknown)
        ranking = state.rank([query._replace(basket=own)])
        return tabulate(Recommended, "item", ranking, state.data, user=np.array([None]))

    def recommend_to_file(
        self,
        path: str | PathLike[str],
        users: Ids | None = None,
        k: int = 10,
        *,
        only: Ids | None = None,
        exclude: Ids | None = None,
        exclude_seen: bool = True,
        mainstream: float | None = None,
        unknown: Unknown = "error",
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Write the answers of `recommend` for many users atomically to a file; return the number of rows.

        The table has the columns user, rank, item, name and score. Users are handled in blocks, so memory does not grow
        with their number.

        Args:
            path: A file that ends in .parquet or .csv.
            users: User ids; by default all users.
            k: As in `recommend`, like all that follow.
            only: Items that may be recommended.
            exclude: Items that must not be recommended.
            exclude_seen: Leave out the items that a user has.
            mainstream: Share of popularity that counts.
            unknown: Treatment of unknown ids.
            progress: Called with the number of users done, after each block.
        """
        model = TrainedModel(self._state)  # one version for all blocks
        allowed, closed = (None if ids is None else list_ids(ids) for ids in (only, exclude))  # one may be an iterator
        recommend = partial(
            model.recommend,
            k=k,
            only=allowed,
            exclude=closed,
            exclude_seen=exclude_seen,
            mainstream=mainstream,
            unknown=unknown,
        )
        return results_file.write_results(path, recommend, model.data, users, progress)

    def similar_items(self, items: Ids, k: int = 10, *, unknown: Unknown = "error") -> Results[SimilarItem]:
        """Return the k items nearest to an item, or to each of several; the item itself is not listed.

        Reach does not count here: a bestseller is no more similar than others.
        """
        state = self._state
        index = look_up(items, state, "item", unknown)  # (B,)
        ranking = state.rank([Query(item=item, k=k) for item in index.tolist()])
        return tabulate(SimilarItem, "similar", ranking, state.data, item=state.data.item_ids.array[index])

    def similar_users(self, users: Ids, k: int = 10, *, unknown: Unknown = "error") -> Results[SimilarUser]:
        """Return the k users nearest to a user, or to each of several; the user themselves is not listed."""
        state, constraint = self._state, self._state.vectors.constraint
        k = max(min(check_k(k), state.data.n_users), 1)
        index = look_up(users, state, "user", unknown)  # (B,)
        queries = state.vectors.users(torch.from_numpy(index)).numpy()  # (B, D)
        turned = DenseVectors(state.vectors.item_table, state.vectors.user_table, constraint)  # users as items
        ranking = ExactRanker(turned).top_of(queries, k, without=list(index[:, None]))
        ranking = replace(ranking, scores=to_nearness(ranking.scores, queries, constraint))
        return tabulate(SimilarUser, "similar", ranking, state.data, user=state.data.user_ids.array[index])

    def explain(self, user: Ids, item: Ids, k: int = 5) -> Results[Reason]:
        """Explain why the item suits the user: return the k of their own items that are nearest to it."""
        if is_several(user) or is_several(item):
            raise ArgumentError("explain is about one user and one item; ask once for each pair")
        state = self._state
        who = look_up(user, state, "user", "error")  # (1,)
        what = look_up(item, state, "item", "error")  # (1,)
        ranking = state.rank([Query(item=int(what[0]), only=state.data.items_of(int(who[0])), k=k)])
        ids = {"user": state.data.user_ids.array[who], "item": state.data.item_ids.array[what]}
        return tabulate(Reason, "because", ranking, state.data, **ids)

    def score(self, users: Ids, items: Ids, *, mainstream: float | None = None) -> NDArray[np.float32]:
        """Return how near pairs of users and items are (n,): 1 − d²/2, on the sphere the dot product.

        With reach, the item's is added, `mainstream` times. Users and items are of the same length, or one of them is a
        single id.
        """
        state = self._state
        pairs = look_up(users, state, "user", "error"), look_up(items, state, "item", "error")
        return state.score(*pairs, mainstream)

    def rank(self, queries: Sequence[Query]) -> Ranking:
        """Return a list for each of B queries in index space: (B, K) for the longest k, shorter lists filled up.

        Queries of any kind may come together: each list is the same, bit for bit, as if its query had been the only
        one. Scores are nearness, 1 − d²/2, and λ times the reach of an item. Items that explain others are the query
        `Query(item=…, only=own_items)`.
        """
        return self._state.rank(queries)

    def score_indices(
        self, users: NDArray[np.int64], items: NDArray[np.int64], *, mainstream: float | None = None
    ) -> NDArray[np.float32]:
        """Return what `score` does, for indices instead of ids."""
        return self._state.score(users, items, mainstream)

    def place(self, items: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Return the vector (D,) of a user who has the items with these indices (n,), ascending."""
        place: NDArray[np.float32] = self._state.fold_in.place(items.astype(np.int32)).numpy()
        return place

    def build_index(
        self,
        path: str | PathLike[str] | None = None,
        config: "Hnsw | None" = None,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> Self:
        """Build an index of the items and answer through it.

        It pays for catalogues of hundreds of thousands of items and more. Needs the extra "ann".

        Args:
            path: File to save the index to; by default it is kept in memory only.
            config: How the index is built and searched.
            progress: Called with the numbers of items done and of all items.
        """
        from spherec.ranking.usearch import UsearchRanker  # an extra

        if path is not None:
            refuse_unwritable(path)  # before the hours of building
        with self._writing:
            state = self._state
            index = UsearchRanker.build(state.vectors, config, progress=progress)
            if path is not None:
                index.save(path)
            self._current = replace(state, index=index)
        return self

    def use_index(
        self,
        path: IndexFiles | None,
        *,
        width: float | None = None,
        mmap: bool = False,
        verify: bool = True,
    ) -> Self:
        """Answer through the index in a file, or through those of all parts of the items.

        `recommend`, `recommend_for` and `similar_items` use it. Scores stay the same; an item may be missed. `fit` and
        `partial_fit` drop the index; after `add_items`, the file is that of fewer items, and must be written again.

        Args:
            path: The index of this model's items, as `build_index` or `spherec export` wrote it; None drops the index
                in use, and the model ranks all items exactly again. A list of m files has the indexes that the parts
                `load(…, items=(0, m))`, `items=(1, m)` … built: all are asked, and their lists are merged.
            width: Items held in view in a search for each one wanted. A larger width misses fewer items, more slowly.
                By default that of the index.
            mmap: Map the index from the file instead of reading it into memory. The file must then be replaced
                atomically, as `build_index` does, never overwritten.
            verify: Compare the file with its checksum, which takes about a second for a gigabyte. Without it a damaged
                index may end the process.
        """
        with self._writing:
            index = None
            if path is not None:
                from spherec.ranking.usearch import load_index  # an extra

                index = load_index(path, self._state.vectors, width=width, mmap=mmap, verify=verify)
            self._current = replace(self._state, index=index)
        return self

    @property
    def ranker(self) -> Ranker:
        """The ranker that lists come from: the index if there is one, else the exact ranker."""
        return self._state.ranker

    @property
    def data(self) -> Interactions:
        """The users and items with ids and names, and the items of each user."""
        return self._state.data

    @property
    def vectors(self) -> DenseVectors:
        """The vectors of all users and items."""
        return self._state.vectors

    @property
    def history(self) -> History:
        """The record of the training, epoch by epoch."""
        return self._state.artifact.history

    @property
    def artifact(self) -> Artifact:
        """Everything that a model file holds."""
        return self._state.artifact

    def ranker_for(self, train: Interactions, test: Interactions) -> ExactRanker:
        """Return the ranker that `evaluate` uses, under the indices of `train`.

        Raises a `DataError` if the model was trained on pairs of `test`.
        """
        state = self._state
        if splits.count_common_pairs(state.data, test):
            raise DataError("the model was trained on pairs that are to test it; train it on the train part alone")
        return align(state.vectors, state.data, train)

    def save(self, path: str | PathLike[str], *, shards: int | None = None) -> None:
        """Write one self-contained file, atomically.

        With `shards`, vectors and pairs are dealt out to so many files next to it, of which `spherec.load` can read
        some alone.
        """
        self._state.artifact.save(path, shards=shards)

    @property
    def _state(self) -> ModelState:
        """The current version. A method reads it once, so that its answer comes from one version."""
        state = self._current
        if state is None:
            raise TrainingError("the model is not trained yet; call fit, or spherec.load a file")
        settle_thread()
        return state

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_writing"}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        self.__dict__ |= attributes | {"_writing": ProcessLock()}


def look_up(ids: Ids, state: ModelState, role: Literal["user", "item"], unknown: Unknown) -> NDArray[np.int64]:
    """Return the indices (n,) of one id or several."""
    known = state.data.user_ids if role == "user" else state.data.item_ids
    remedy = _REMEDY_OF_PART if state.artifact.is_part else _REMEDIES[role]
    return known.look_up(ids, role=role, unknown=unknown, remedy=remedy)


def _ask(
    state: ModelState,
    k: int,
    only: Ids | None,
    exclude: Ids | None,
    exclude_seen: bool,
    mainstream: float | None,
    unknown: Unknown,
) -> Query:
    """Return the query in index space, without saying whose list is wanted."""
    allowed, closed = (None if ids is None else look_up(ids, state, "item", unknown) for ids in (only, exclude))
    return Query(k=k, exclude_seen=exclude_seen, only=allowed, exclude=closed, mainstream=mainstream)
