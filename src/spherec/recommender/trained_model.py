"""A trained model and the questions it answers: recommend, similar, explain, score. External ids in and out.

All answers stand on `ModelState.rank`, which takes queries in index space and checks them.
"""

import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypedDict, Unpack, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.artifact import Artifact
from spherec.data import splits
from spherec.data.ids import Ids, Unknown, is_several, list_ids, refuse_twins
from spherec.data.interactions import Interactions
from spherec.data.output_files import refuse_unwritable
from spherec.device import ProcessLock, settle_thread
from spherec.errors import (
    ArgumentError,
    DataError,
    SkippedIdsWarning,
    TrainingError,
    check_choice,
    check_count,
    check_number,
    quote,
    refuse_unknown,
)
from spherec.evaluation.foreign import align
from spherec.geometry import Constraint, DenseVectors, check_mainstream, squared_distance
from spherec.lazy import Lazy
from spherec.ranking import ExactRanker, MergedRanker, Ranker, Ranking
from spherec.ranking.diversity import POOL, diversify
from spherec.ranking.index_file import IndexFiles
from spherec.ranking.ranker import Asked, Indices, LeftOut, check_indices, check_queries, refuse_idle_dial, refuse_nan
from spherec.recommender.fold_in import FoldIn
from spherec.recommender.results import (
    Reason,
    Recommended,
    Results,
    SimilarItem,
    SimilarUser,
    answer_in_blocks,
    tabulate,
    write_results,
)
from spherec.training import History

if TYPE_CHECKING:
    from spherec.ranking.usearch import Hnsw, UsearchRanker  # an extra

UnknownUser = Literal["error", "skip", "popular"]
"""Treatment of users whom the model does not know; "popular" gives them the most popular items."""

_NOTHING = np.zeros(0, dtype=np.int64)
_REMEDIES = {
    "user": "place new users with recommend_for or fold_in, or skip them with unknown='skip'",
    "item": "learn new items with partial_fit or add_items, or skip them with unknown='skip'",
    "part": "another part of the model may have it: ask that one, or skip it with unknown='skip'",
}


class Query(NamedTuple):
    """One list that is wanted: around whom or what, and which items may be on it. Ids are dense indices here.

    One of `user`, `basket`, `vector` and `item` says where the list is.
    """

    user: int | None = None
    "A user whom the model knows."
    basket: Indices | None = None
    """(n,) items of a user whom the model does not know, who is placed by them. With none, the list has the most
    popular items, and their numbers of users as scores."""
    vector: NDArray[np.floating[Any]] | None = None
    "(D,) any place."
    item: int | None = None
    "An item whose neighbours are wanted. It is not listed itself, and reach does not count."
    k: int = 10
    "Length of the list. It is shorter only if fewer items are left."
    exclude_seen: bool = True
    "Leave out the items of the user, or of the basket."
    only: Indices | None = None
    "(o,) items that may be listed; None for all. Queries with the same are ranked together."
    exclude: Indices | None = None
    "(e,) items that must not be listed."
    mainstream: float | None = None
    "λ, the share of reach that counts; None for that of the model."
    diversity: float = 0.0
    "δ of maximal marginal relevance: 0 lists the nearest items, 1 items that are far from each other."

    @property
    def is_popular(self) -> bool:
        """True if nothing is known of the user, so that the most popular items are listed."""
        return self.basket is not None and not len(self.basket)


class ModelState:
    """One version of a trained model, with all that is derived from it. It never changes; a new version replaces it.

    Args:
        artifact: Vectors, data, config and history: the content of a model file.
        index: Ranks through a graph, or through one for each shard, if they were built or loaded.
    """

    def __init__(self, artifact: Artifact, index: "UsearchRanker | MergedRanker | None" = None) -> None:
        self.artifact, self.vectors, self.data = artifact, artifact.vectors, artifact.data
        self.index = index
        self.ranker: Ranker = ExactRanker(artifact.vectors) if index is None else index
        self.fold_in = FoldIn(artifact)

    def rank(self, queries: Sequence[Query]) -> Ranking:
        """Return a list for each query; see `TrainedModel.rank`. All that a query asks for is checked here."""
        queries = self._check(queries)
        places, dial = self._place(queries), np.array([query.mainstream for query in queries], dtype=np.float32)
        lengths = np.array([self._pool_of(query) for query in queries], dtype=np.int64)  # (B,)
        ranking = Ranking.empty(len(queries), max(int(lengths.max(initial=0)), 1))
        for rows in self._group(queries):
            group, k = [queries[row] for row in rows], max(int(lengths[rows].max()), 1)
            left_out, exclude = self._leave_out(group)
            asked = Asked(torch.from_numpy(places[rows]), k, left_out, dial[rows], group[0].only, exclude)
            found = self.ranker.search(asked)
            ranking.put(np.array(rows), found.items, found.scores)
        beyond = np.arange(ranking.items.shape[1]) >= lengths[:, None]  # (B, K)
        ranking.items[beyond], ranking.scores[beyond] = -1, -np.inf
        ranking = Ranking(ranking.items, to_nearness(ranking.scores, places, self.vectors.constraint))
        for row, query in enumerate(queries):
            if query.is_popular:
                items = self._most_popular(query)  # (≤ k,)
                ranking.put(np.array([row]), items[None], self.data.users_per_item[items][None].astype(np.float32))
            elif query.diversity:
                spread = diversify(self.vectors, ranking.items[row], ranking.scores[row], query.k, query.diversity)
                ranking.items[row], ranking.scores[row] = -1, -np.inf
                ranking.put(np.array([row]), *spread)
        longest = max((query.k for query in queries), default=1) or 1
        return Ranking(ranking.items[:, :longest], ranking.scores[:, :longest])

    def _pool_of(self, query: Query) -> int:
        """Return how many of the nearest items are looked for."""
        return min(POOL * query.k, self.data.n_items) if query.diversity and not query.is_popular else query.k

    @Lazy
    def _by_popularity(self) -> NDArray[np.int64]:
        """All items (I,), those that most users have first."""
        return np.argsort(-self.data.users_per_item, kind="stable")

    def _most_popular(self, query: Query) -> NDArray[np.int64]:
        """Return the k most popular items that the query allows."""
        allowed = np.full(self.data.n_items, query.only is None)
        allowed[_NOTHING if query.only is None else query.only] = True
        allowed[_NOTHING if query.exclude is None else query.exclude] = False
        best: NDArray[np.int64] = self._by_popularity[allowed[self._by_popularity]][: query.k]
        return best

    def check_dial(self, mainstream: float | None) -> float:
        """Return λ, by default that of the model."""
        refuse_idle_dial(mainstream, self.vectors)
        return self.vectors.mainstream if mainstream is None else check_mainstream(mainstream)

    def _check(self, queries: Sequence[Query]) -> list[Query]:
        """Return queries without defaults, whose filters are ascending and have no item twice."""
        filters = {id(query.only): (query.only, "only") for query in queries}  # by `id`: many queries share one
        filters |= {id(query.exclude): (query.exclude, "exclude") for query in queries}
        for query in queries:
            check_number("diversity", query.diversity, 0, 1)
        checked = {at: None if given[0] is None else self._distinct(*given) for at, given in filters.items()}
        return [
            query._replace(
                k=min(check_count("k", query.k), self.data.n_items),
                only=checked[id(query.only)],
                exclude=checked[id(query.exclude)],
                mainstream=self.check_dial(query.mainstream) if query.item is None else 0.0,
            )
            for query in queries
        ]

    def _distinct(self, items: Any, name: str) -> NDArray[np.int64]:
        return np.unique(check_indices(items, self.data.n_items, name))

    def _place(self, queries: Sequence[Query]) -> NDArray[np.float32]:
        """Return the places (B, D) that lists are around."""
        places = np.zeros((len(queries), self.vectors.dim), dtype=np.float32)
        for name, count, gather in (
            ("user", self.vectors.n_users, self.vectors.users),
            ("item", self.vectors.n_items, self.vectors.items),
        ):
            rows = [row for row, query in enumerate(queries) if getattr(query, name) is not None]
            index = check_indices(np.array([getattr(queries[row], name) for row in rows]), count, name)
            places[rows] = gather(torch.from_numpy(index)).numpy()
        for row, query in enumerate(queries):
            if query.basket is not None and not query.is_popular:
                own = self._distinct(query.basket, "basket")
                places[row] = self.fold_in.place(own.astype(np.int32)).numpy()
            elif query.vector is not None:
                with np.errstate(over="ignore"):  # what is too large is refused
                    vector = np.asarray(query.vector, dtype=np.float32)
                check_queries(vector[None], self.vectors.dim)
                places[row] = vector
        return places

    def _group(self, queries: Sequence[Query]) -> Iterable[list[int]]:
        """Return the rows of queries that are ranked by one call: those with the same `only`.

        With an index those of the same length, too, because it looks further for longer lists.
        """
        names = {id(query.only): query.only for query in queries}
        contents = {at: None if items is None else items.tobytes() for at, items in names.items()}
        groups: dict[tuple[bytes | None, int], list[int]] = {}
        for row, query in enumerate(queries):
            if not query.is_popular:
                length = 0 if self.index is None else self._pool_of(query)
                groups.setdefault((contents[id(query.only)], length), []).append(row)
        return groups.values()

    def _leave_out(self, group: Sequence[Query]) -> tuple[LeftOut, Indices | None]:
        """Return the items that each query does not get and, if they exclude the same items, these for all."""
        shared = group[0].exclude if len({id(query.exclude) for query in group}) == 1 else None
        lists = []
        for query in group:
            own = self._own_items(query)
            lists.append(own if shared is not None or query.exclude is None else np.union1d(own, query.exclude))
        return LeftOut.of_lists(lists), shared

    def _own_items(self, query: Query) -> Indices:
        """Return the items that are not listed because of whom or what the list is around."""
        if query.item is not None:
            return np.array([query.item])
        if query.user is not None and self.data.disliked is not None:
            seen = self.data.items_of(query.user) if query.exclude_seen else _NOTHING
            return np.union1d(seen, self.data.disliked_by(query.user))
        if query.user is not None and query.exclude_seen:
            return self.data.items_of(query.user)
        return np.unique(query.basket) if query.basket is not None and query.exclude_seen else _NOTHING

    def __reduce__(self) -> tuple[Any, ...]:
        return ModelState, (self.artifact, self.index)


def to_nearness(
    scores: NDArray[np.float32], queries: NDArray[np.float32], constraint: Constraint
) -> NDArray[np.float32]:
    """Turn scores (B, K) of queries (B, D) into 1 − d²/2: on the sphere they are that."""
    if constraint == "sphere":
        return scores
    lengths = np.square(queries, dtype=np.float64).sum(1)  # (B,) u·v − |v|²/2 is 1 − d²/2, less 1 − |u|²/2
    nearness: NDArray[np.float32] = (scores + (1 - lengths / 2)[:, None]).astype(np.float32)
    return nearness


class NearOptions(TypedDict, total=False):
    """The options of a list of items."""

    only: Ids | None
    """Items that may be listed, such as those in stock; by default all. Ids that the model does not know are skipped,
    with a `SkippedIdsWarning`; if it knows none of them, that is an error."""
    exclude: Ids | None
    "Items that must not be listed. Ids that the model does not know are skipped."
    diversity: float
    """Distance of the items of a list from each other, from 0, the default, to 1: each place goes to the item for which
    (1 − diversity) times its score, less diversity times its nearness to the items above it, is largest."""
    unknown: UnknownUser
    """"error", the default, raises an `UnknownIdError` for ids that the model does not know, "skip" ignores them,
    "popular" gives users whom the model does not know the most popular items. `fallback` of the results names them."""


class ListOptions(NearOptions, total=False):
    """The options of a list of recommendations."""

    exclude_seen: bool
    "Leave out the items that the user has; by default True."
    mainstream: float | None
    """Share of popularity that counts, for a model with reach: 1 gives the most popular lists, 0 counts none, below 0
    lists the long tail. By default as the model's settings say."""


class TrainedModel:
    """A trained model and the questions it answers.

    Threads may ask while another one trains: every answer comes from one version of the model, the last one that was
    complete when the question was asked. Pickles and copies of a model answer alike, through the same index.
    """

    def __init__(self, state: ModelState | None = None) -> None:
        self._current = state
        self._writing = ProcessLock()  # one change at a time; readers never wait

    def recommend(self, users: Ids, k: int = 10, **options: Unpack[ListOptions]) -> Results[Recommended]:
        """Return the k nearest items of a user, or of each of several users.

        Args:
            users: One user id or several.
            k: Length of each list. A list is shorter only if fewer items are left.
            options: `only`, `exclude`, `exclude_seen`, `mainstream`, `diversity` and `unknown`: see `ListOptions`.
        """
        state, query, unknown = self._ask("recommend", k, options)
        if unknown != "popular":
            index = look_up(users, state, "user", unknown)  # (B,)
            ranking = state.rank([query._replace(user=user) for user in index.tolist()])
            return tabulate(Recommended, "item", ranking, state.data, user=state.data.user_ids.array[index])
        wanted = list_ids(users)
        index = state.data.user_ids.find(wanted)  # (B,) -1 for a user whom the model does not know
        strange = [user for user, at in zip(wanted, index.tolist(), strict=True) if at < 0]
        refuse_twins(state.data.user_ids, strange, "the model knows the user", "the question has")
        users_and_others = [
            query._replace(**({"user": at} if at >= 0 else {"basket": _NOTHING})) for at in index.tolist()
        ]
        names = np.fromiter(wanted, dtype=object, count=len(wanted))
        results = tabulate(Recommended, "item", state.rank(users_and_others), state.data, user=names)
        return replace(results, fallback=tuple(strange))

    def recommend_for(self, items: Ids, k: int = 10, **options: Unpack[ListOptions]) -> Results[Recommended]:
        """Return the k nearest items of a user whom the model has never seen, placed by the items that they have.

        Args:
            items: The items that the user has. With none, the list has the most popular items.
            k: As in `recommend`.
            options: `only`, `exclude`, `exclude_seen`, `mainstream`, `diversity` and `unknown`, as in `recommend`.
        """
        state, query, unknown = self._ask("recommend_for", k, options)
        query = query._replace(basket=look_up(items, state, "item", "skip" if unknown == "popular" else unknown))
        results = tabulate(Recommended, "item", state.rank([query]), state.data, user=np.array([None]))
        return replace(results, fallback=(None,)) if query.is_popular else results

    def _ask(
        self, method: str, k: int, options: NearOptions, kind: type = ListOptions
    ) -> tuple[ModelState, Query, UnknownUser]:
        """Return the version that answers, the query but for the user, and what to do about unknown ids."""
        refuse_unknown(method, options, kind)
        state, given = self._state, cast("ListOptions", options)
        unknown, exclude_seen = given.get("unknown", "error"), given.get("exclude_seen", True)
        check_choice("unknown", unknown, get_args(UnknownUser))
        if not isinstance(exclude_seen, bool | np.bool_):
            raise ArgumentError(f"exclude_seen must be True or False, got {quote(exclude_seen)}")
        only, exclude = (self._filter(given.get(name), name, state, unknown) for name in ("only", "exclude"))
        query = Query(k=k, exclude_seen=bool(exclude_seen), only=only, exclude=exclude)
        return state, query._replace(mainstream=given.get("mainstream"), diversity=given.get("diversity", 0.0)), unknown

    @staticmethod
    def _filter(ids: Any, name: str, state: ModelState, unknown: str) -> NDArray[np.int64] | None:
        """Return the items of `only` or `exclude`; None for all."""
        if ids is None:
            return None
        wanted = list_ids(ids)
        items, skipped = skip_unknown(wanted, look_up(wanted, state, "item", "skip"), state.data, name)
        if skipped and unknown == "error":
            text = f"{name}: {skipped:,} of {len(wanted):,} ids are not in the model, and are skipped"
            warnings.warn(SkippedIdsWarning(text), stacklevel=4)
        return items

    def recommend_to_file(
        self,
        path: str | PathLike[str],
        users: Ids | None = None,
        k: int = 10,
        *,
        progress: Callable[[int], None] | None = None,
        **options: Unpack[ListOptions],
    ) -> int:
        """Write the answers of `recommend` for many users atomically to a file; return the number of rows.

        Users are handled in blocks, so memory does not grow with their number.

        Args:
            path: A file that ends in .parquet or .csv.
            users: User ids; by default all users.
            k: As in `recommend`.
            progress: Called with the number of users done, after each block.
            options: As in `recommend`. With `unknown="popular"`, a column `fallback` marks lists of unknown users.
        """
        model = TrainedModel(self._state)  # one version for all blocks
        _, query, _ = model._ask("recommend_to_file", k, options)  # tells once what it skips
        known = (None if items is None else model.data.item_ids.array[items] for items in (query.only, query.exclude))
        options["only"], options["exclude"] = known
        recommend = partial(model.recommend, k=k, **options)
        blocks = answer_in_blocks(recommend, model.data.user_ids if users is None else users, progress)
        return write_results(path, blocks, model.data)

    def similar_items(self, items: Ids, k: int = 10, **options: Unpack[NearOptions]) -> Results[SimilarItem]:
        """Return the k items nearest to an item, or to each of several; the item itself is not listed.

        Reach does not count here: a bestseller is no more similar than others. The options are `only`, `exclude`,
        `diversity` and `unknown`, as in `recommend`.
        """
        state, query, unknown = self._ask("similar_items", k, options, NearOptions)
        index = look_up(items, state, "item", unknown)  # (B,)
        ranking = state.rank([query._replace(item=item) for item in index.tolist()])
        return tabulate(SimilarItem, "similar", ranking, state.data, item=state.data.item_ids.array[index])

    def similar_users(self, users: Ids, k: int = 10, *, unknown: Unknown = "error") -> Results[SimilarUser]:
        """Return the k users nearest to a user, or to each of several; the user themselves is not listed."""
        state, constraint = self._state, self._state.vectors.constraint
        k = max(min(check_count("k", k), state.data.n_users), 1)
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
        model = TrainedModel(self._state)
        who, what = look_up(users, model._state, "user", "error"), look_up(items, model._state, "item", "error")
        return model.score_indices(who, what, mainstream=mainstream)

    def rank(self, queries: Sequence[Query]) -> Ranking:
        """Return a list for each of B queries in index space: (B, K) for the longest k, shorter lists filled up.

        Queries of any kind may come together: each list is the same, bit for bit, as if its query had been the only
        one. Scores are nearness, 1 − d²/2, and λ times the reach of an item.
        """
        return self._state.rank(queries)

    def score_indices(
        self, users: NDArray[np.int64], items: NDArray[np.int64], *, mainstream: float | None = None
    ) -> NDArray[np.float32]:
        """Return what `score` does, for indices instead of ids."""
        state = self._state
        vectors, share = state.vectors, np.float32(state.check_dial(mainstream))
        if len(users) != len(items) and 1 not in (len(users), len(items)):
            raise ArgumentError(
                f"users and items must have the same length, or one must be a single id, got {len(users)} and "
                f"{len(items)}"
            )
        who, what = (torch.from_numpy(index.astype(np.int64)) for index in np.broadcast_arrays(users, items))  # (n,)
        scores = (1 - squared_distance(vectors.users(who), vectors.items(what)) / 2).numpy()
        if vectors.reach is not None:
            scores += share * vectors.reach.numpy()[what]
        refuse_nan(np.abs(scores))
        return scores

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
        """Build an index of the items and answer through it. It pays for hundreds of thousands of items and more.

        With a `path`, it is saved there, too. `progress` is called with the numbers of items done and of all items.
        """
        from spherec.ranking.usearch import UsearchRanker  # an extra

        if path is not None:
            refuse_unwritable(path)  # before the hours of building
        with self._writing:
            state = self._state
            index = UsearchRanker.build(state.vectors, config, progress=progress)
            if path is not None:
                index.save(path)
            self._current = ModelState(state.artifact, index)
        return self

    def use_index(self, path: IndexFiles | None, *, width: float | None = None, mmap: bool = False) -> Self:
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
        """
        with self._writing:
            index = None
            if path is not None:
                from spherec.ranking.usearch import load_index  # an extra

                index = load_index(path, self._state.vectors, width=width, mmap=mmap)
            self._current = ModelState(self._state.artifact, index)
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
        """Return the ranker that `evaluate` uses, under the indices of `train`; `test` must be new to the model."""
        state = self._state
        if splits.count_common_pairs(state.data, test):
            raise DataError("the model was trained on pairs that are to test it; train it on the train part alone")
        return align(state.vectors, state.data, train)

    def save(self, path: str | PathLike[str], *, shards: int | None = None) -> None:
        """Write one file atomically; `shards` deals vectors and pairs out to so many files more, to be loaded alone."""
        self._state.artifact.save(path, shards=shards)

    @property
    def _state(self) -> ModelState:
        """The current version. A method reads it once, so that its answer comes from one version."""
        state = self._current
        if state is None:
            raise TrainingError("the model is not trained yet; call fit, or spherec.load a file")
        settle_thread()
        return state


def skip_unknown(
    wanted: Sequence[Hashable], found: NDArray[np.int64], data: Interactions, name: str
) -> tuple[NDArray[np.int64], int]:
    """Return the items found of those wanted in a filter, and the number of the others.

    Lists of what is in stock have items that nobody has bought yet. `only` of which nothing is known is an error.
    """
    if name == "only" and wanted and not len(found):
        data.item_ids.index_of(list(wanted), role="item", remedy="give items of this model in only")
    return found, len(wanted) - len(found)


def look_up(ids: Ids, state: ModelState, role: Literal["user", "item"], unknown: str) -> NDArray[np.int64]:
    """Return the indices (n,) of one id or several."""
    wanted = list_ids(ids)
    known = state.data.user_ids if role == "user" else state.data.item_ids
    remedy = _REMEDIES["part" if state.artifact.is_part else role]
    return known.index_of(wanted, role=role, unknown=cast("Unknown", unknown), remedy=remedy)
