"""Approximate ranking of millions of items: a search walks a graph of near items (HNSW).

Only this file imports usearch.

The graph holds its own, coarser copy of the vectors and names candidates; their scores come from the vectors themselves
and are those of `ExactRanker`. An item may be missed; its score is never wrong. Items with reach have two coordinates
more in the graph (`widen_items`), and a query says by one of its own how much of the reach counts.

Yu. A. Malkov, D. A. Yashunin: Efficient and robust approximate nearest neighbor search using Hierarchical Navigable
Small World graphs, 2016.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.data.events import pair_keys
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, DataError, quote
from spherec.forks import ProcessLock
from spherec.geometry import DenseVectors, Vectors, longest_reach, widen_items, widen_queries, widened_dim
from spherec.ranking import index_file
from spherec.ranking.exact import ExactRanker, score_pairs
from spherec.ranking.merged import MergedRanker, take_items
from spherec.ranking.ranker import (
    Indices,
    LeftOut,
    Mainstream,
    Ranking,
    check_dial,
    check_queries,
    check_users,
    refuse_nan,
    split_blocks,
)

try:
    from usearch.index import Index
except ImportError as error:
    from spherec.errors import MissingPackageError

    raise MissingPackageError("an index needs usearch; install it with: pip install 'spherec[ann]'") from error

_ADDED = 10_000  # items between two calls of `progress`
_QUERIES = 1024  # asked at once
_LEAST = 64  # items in view, however few are wanted
_Dtype = Literal["f32", "f16", "bf16"]
_METRICS = {"sphere": "ip", "ball": "l2sq"}


@dataclass(frozen=True)
class Hnsw:
    """Settings of the graph: how it is built and searched."""

    connectivity: int = 32
    "Neighbours that an item keeps (M). More neighbours find more items and take more memory."
    expansion_add: int = 128
    "Items held in view when one is added (efConstruction). A larger number builds a better graph, more slowly."
    width: float = 5.0
    """Items held in view in a search for each one wanted: ef = width · (k + items left out). A larger width finds more
    items, more slowly. It is the one setting that a finished index can change."""
    dtype: _Dtype = "bf16"
    "Number type of the vectors in the graph. It only names candidates, so half the precision costs next to nothing."
    exact_beyond: float = 1 / 500
    "Share of the catalogue. A query with more items in view than that is ranked exactly, because that is faster then."

    def __post_init__(self) -> None:
        for name in ("connectivity", "expansion_add"):
            if (value := getattr(self, name)) < 2:
                raise ArgumentError(f"{name} must be a whole number >= 2, got {value}")
        if not self.width >= 1:
            raise ArgumentError(f"width must be >= 1, got {self.width}")
        if self.dtype not in get_args(_Dtype):
            raise ArgumentError(f"dtype must be one of {', '.join(get_args(_Dtype))}, got {quote(self.dtype)}")
        if not 0 <= self.exact_beyond <= 1:
            raise ArgumentError(f"exact_beyond must be between 0 and 1, got {self.exact_beyond}")


class UsearchRanker:
    """A `Ranker` that asks a graph of the items for candidates.

    Always lists as many items as there are. A user's own items take up places among the nearest, so the graph is asked
    for that many more; where still too few are left, for twice as many. Beyond `exact_beyond` of the catalogue (users
    with very long histories, very long lists, small catalogues) all items are ranked exactly.
    """

    def __init__(
        self, index: Index, vectors: Vectors, config: Hnsw, *, content: NDArray[np.uint8] | None = None
    ) -> None:
        self.vectors = vectors
        self.config = config
        self._index = index
        self._content = content  # the bytes of which the index is a view
        self._searching = ProcessLock()
        self._exact = ExactRanker(vectors)

    @classmethod
    def build(
        cls, vectors: Vectors, config: Hnsw | None = None, *, progress: Callable[[int, int], None] | None = None
    ) -> Self:
        """Build an index of the items, in as many threads as torch uses; `progress` is called with (done, all).

        In one thread the same vectors always give the same graph; with more it depends on which thread is first.
        """
        config = config or Hnsw()
        index = _empty(vectors, config)
        done = 0
        for rows in _chunks(vectors):  # (c, D)
            keys = np.arange(done, done + len(rows), dtype=np.uint64)
            index.add(keys, rows, threads=torch.get_num_threads())
            done += len(rows)
            if progress is not None:
                progress(done, vectors.n_items)
        return cls(index, vectors, config)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the index atomically: a file of usearch that ends with a description of its vectors and a checksum."""
        index_file.write_index(path, self._index.save, self.vectors, self.config)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        vectors: Vectors,
        *,
        width: float | None = None,
        mmap: bool = False,
        verify: bool = True,
    ) -> Self:
        """Read the index of these vectors from a file.

        Args:
            path: The file.
            vectors: The vectors that the index was built from.
            width: Items held in view in a search for each one wanted; by default that of the index.
            mmap: Map the index from the file instead of reading it into memory. The file must then be replaced
                atomically, never overwritten.
            verify: Compare the file with its checksum. Without it a damaged index may end the process.
        """
        described, content = index_file.read_index(path, vectors, mmap=mmap, verify=verify)
        with index_file.damage(path):
            config = Hnsw(**described | ({} if width is None else {"width": width}))
            index = _view(content, vectors, config)
            if len(index) != vectors.n_items:
                raise ValueError(f"it has {len(index):,} items")
            if not np.array_equal(np.sort(np.asarray(index.keys)), np.arange(vectors.n_items)):
                raise ValueError("its keys are not the positions of the items")
        return cls(index, vectors, config, content=content)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._to_bytes(), self.vectors, self.config)

    def _to_bytes(self) -> NDArray[np.uint8]:
        """Return the graph as bytes. Searches may go on: they do not change it."""
        return self._content if self._content is not None else np.frombuffer(self._index.save() or b"", dtype=np.uint8)

    def with_vectors(self, vectors: Vectors) -> "UsearchRanker":
        """Return a ranker with the same graph for vectors with the same items and other users."""
        other = UsearchRanker(self._index, vectors, self.config, content=self._content)
        other._searching = self._searching  # the graph is the same
        return other

    def extend(self, vectors: Vectors) -> "UsearchRanker | None":
        """Return a ranker for vectors of these items and more, which are added to a copy of its graph.

        None if one of them has a longer reach than all before: that changes a coordinate of every item.
        """
        first, reach = self.vectors.n_items, vectors.reach
        if reach is not None and longest_reach(reach) > longest_reach(reach[:first]):
            return None
        index = _empty(vectors, self.config)
        index.load(self._to_bytes().data)
        new = torch.arange(first, vectors.n_items, device=vectors.device)
        rows = vectors.items(new)  # (n, D)
        if reach is not None:
            rows = widen_items(rows, reach[first:], longest_reach(reach))  # (n, D + 2)
        index.add(new.cpu().numpy().astype(np.uint64), rows.cpu().numpy(), threads=torch.get_num_threads())
        return UsearchRanker(index, vectors, self.config)

    def top(
        self,
        users: NDArray[np.int64],
        k: int,
        *,
        without: Interactions | None = None,
        only: Indices | None = None,
        exclude: Indices | None = None,
        mainstream: Mainstream | None = None,
    ) -> Ranking:
        """Return the k best items for user indices (B,), without those that the users have in `without`."""
        if not self._can_search(k, only, exclude):
            return self._exact.top(users, k, without=without, only=only, exclude=exclude, mainstream=mainstream)
        users = check_users(users, self.vectors.n_users)
        dial = check_dial(mainstream, len(users), self.vectors)  # (B,)
        ranking = Ranking.empty(len(users), k)
        for block in split_blocks(len(users), _QUERIES):
            queries = self.vectors.users(torch.as_tensor(users[block], device=self.vectors.device)).cpu().numpy()
            left_out = LeftOut.of_users(users[block], without).extend(exclude, self.vectors.n_items)
            ranking.put(block, *self._rank(queries, int(k), left_out, dial[block]))
        return ranking

    def top_of(
        self,
        queries: NDArray[np.float32],
        k: int,
        *,
        without: LeftOut | Sequence[Indices] | None = None,
        only: Indices | None = None,
        exclude: Indices | None = None,
        mainstream: Mainstream | None = None,
    ) -> Ranking:
        """Return the k best items for vectors (B, D), without those in each query's list of item indices."""
        if not self._can_search(k, only, exclude):
            return self._exact.top_of(queries, k, without=without, only=only, exclude=exclude, mainstream=mainstream)
        check_queries(queries, self.vectors.dim)
        dial = check_dial(mainstream, len(queries), self.vectors)  # (B,)
        left_out = LeftOut.of_lists(without, len(queries), self.vectors.n_items).extend(exclude, self.vectors.n_items)
        ranking = Ranking.empty(len(queries), k)
        for block in split_blocks(len(queries), _QUERIES):
            ranking.put(block, *self._rank(queries[block], int(k), left_out.select(block), dial[block]))
        return ranking

    def _can_search(self, k: int, only: Indices | None, exclude: Indices | None) -> bool:
        """Return whether the graph can answer: it cannot keep to `only`, and a long `exclude` leaves too little."""
        if only is not None:
            return False
        return exclude is None or bool(self._in_view(k, np.array([np.size(exclude)]))[0] <= self._most)

    @property
    def _most(self) -> float:
        """Items in view beyond which exact ranking is faster."""
        return self.config.exact_beyond * self.vectors.n_items

    def _rank(
        self, queries: NDArray[np.float32], k: int, left_out: LeftOut, dial: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Rank the candidates of the graph for queries (b, D) with λ (b,).

        Ask the graph again, or rank exactly, where too few are left.
        """
        items = np.full((len(queries), k), -1, dtype=np.int64)
        scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
        possible = np.minimum(k, self.vectors.n_items - left_out.counts)  # (b,)
        ask = self._in_view(k, left_out.counts)  # (b,) candidates
        pending = np.arange(len(queries))
        while len(pending):
            beyond = ask[pending] > self._most
            rows = pending[beyond]
            if len(rows):
                exact = self._exact.top_of(queries[rows], k, without=left_out.select(rows), mainstream=dial[rows])
                items[rows], scores[rows] = exact.items, exact.scores
            short = []  # queries that got too few
            for count in np.unique(ask[pending[~beyond]]):
                rows = pending[~beyond][ask[pending[~beyond]] == count]
                some = left_out.select(rows)
                items[rows], scores[rows] = self._search(queries[rows], int(count), k, some, dial[rows])
                short.append(rows[(items[rows] >= 0).sum(1) < possible[rows]])
            pending = np.concatenate(short) if short else pending[:0]
            ask[pending] *= 2
        return items, scores

    def _in_view(self, k: int, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many items to look at (b,) so that k are left; few different numbers, to search many at once."""
        rounded_up = np.where(counts > 0, 2 ** np.ceil(np.log2(np.maximum(counts, 1))), 0)  # to powers of two
        wanted = np.maximum(np.ceil(self.config.width * (k + rounded_up)), _LEAST)
        return np.minimum(wanted, self.vectors.n_items).astype(np.int64)

    def _search(
        self, queries: NDArray[np.float32], count: int, k: int, left_out: LeftOut, dial: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the k best (b, k) of `count` candidates each, and their scores."""
        n_items, asked = self.vectors.n_items, queries
        if self.vectors.reach is not None:
            asked = widen_queries(torch.from_numpy(queries), torch.from_numpy(dial)).numpy()  # (b, D + 2)
        with self._searching:  # usearch does not promise that several threads may search at once
            matches = self._index.search(asked, count, threads=torch.get_num_threads())  # looks at `count`, too
        items = matches.keys.reshape(len(queries), -1).astype(np.int64)  # (b, c)
        counts = np.reshape(getattr(matches, "counts", items.shape[1]), (-1, 1))  # (b, 1); of one query: all are found
        absent = np.arange(items.shape[1]) >= counts  # (b, c)
        items[absent] = 0  # whatever stood there
        rows = np.arange(len(queries))[:, None]  # (b, 1)
        absent |= np.isin(pair_keys(rows, items, n_items), pair_keys(left_out.queries, left_out.items, n_items))
        asking, index, share = (torch.as_tensor(part, device=self.vectors.device) for part in (queries, items, dial))
        reach = self.vectors.reach
        scores = score_pairs(asking, self.vectors.items, index, self.vectors.constraint, reach, share).cpu().numpy()
        refuse_nan(scores)  # (b, c)
        scores[absent] = -np.inf
        order = np.lexsort((items, -scores), axis=1)[:, :k]  # of equal scores the lower index first
        items, scores = np.take_along_axis(items, order, 1), np.take_along_axis(scores, order, 1)
        padding = ((0, 0), (0, k - items.shape[1]))
        items = np.pad(np.where(np.isneginf(scores), -1, items), padding, constant_values=-1)
        return items, np.pad(scores, padding, constant_values=-np.inf)


def load_index(
    files: index_file.IndexFiles,
    vectors: DenseVectors,
    *,
    width: float | None = None,
    mmap: bool = False,
    verify: bool = True,
) -> UsearchRanker | MergedRanker:
    """Read the index of these vectors from its file, or the indexes of all m parts of the items from m files."""
    load = partial(UsearchRanker.load, width=width, mmap=mmap, verify=verify)
    if isinstance(files, str | PathLike):
        return load(files, vectors)
    m = len(files)
    try:
        rankers = [load(file, take_items(vectors, j, m)) for j, file in enumerate(files)]
    except DataError as error:
        raise DataError(f"{error}; {m} files are the indexes of all {m} parts, in their order") from None
    return MergedRanker(rankers, vectors)


def _chunks(vectors: Vectors) -> Iterator[NDArray[np.float32]]:
    """Yield all item vectors (c, D), with reach (c, D + 2), `_ADDED` at a time, whatever blocks they come in."""
    rest = np.empty((0, widened_dim(vectors)), dtype=np.float32)
    for block in _widened_blocks(vectors):
        rows = block.cpu().numpy()
        rest = np.concatenate((rest, rows)) if len(rest) else rows
        while len(rest) >= _ADDED:
            yield rest[:_ADDED]
            rest = rest[_ADDED:]
    if len(rest):
        yield rest


def _widened_blocks(vectors: Vectors) -> Iterator[Tensor]:
    """Yield the item vectors, block after block, widened by their reach if they have one."""
    reach, first = vectors.reach, 0
    if reach is None:
        yield from vectors.item_blocks()
        return
    longest = longest_reach(reach)
    for block in vectors.item_blocks():
        yield widen_items(block, reach[first : first + len(block)], longest)
        first += len(block)


def _view(content: NDArray[np.uint8], vectors: Vectors, config: Hnsw) -> Index:
    """Return the index in these bytes, which must stay as long as it is used."""
    index = _empty(vectors, config)
    index.view(content.data)
    return index


def _restore(content: NDArray[np.uint8], vectors: Vectors, config: Hnsw) -> UsearchRanker:
    """Return the ranker of a pickle."""
    return UsearchRanker(_view(content, vectors, config), vectors, config, content=content)


def _empty(vectors: Vectors, config: Hnsw) -> Index:
    return Index(
        ndim=widened_dim(vectors),
        metric=_METRICS[vectors.constraint],
        dtype=config.dtype,
        connectivity=config.connectivity,
        expansion_add=config.expansion_add,
        expansion_search=_LEAST,
    )
