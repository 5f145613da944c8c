"""Approximate ranking of millions of items: a search walks a graph of near items (HNSW).

Only this file imports usearch.

The graph holds a coarser copy of the vectors and names candidates, whose scores are those of `ExactRanker`. Items with
reach have two coordinates more in it (`widen_items`), and a query says by one of its own how much of the reach counts.

Yu. A. Malkov, D. A. Yashunin: Efficient and robust approximate nearest neighbor search using Hierarchical Navigable
Small World graphs, 2016.
"""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.data.events import pair_keys
from spherec.data.input_files import reading_file
from spherec.errors import DataError, check_choice, check_number
from spherec.geometry import DenseVectors, Vectors, longest_reach, widen_items, widen_queries, widened_dim
from spherec.ranking import index_file
from spherec.ranking.exact import ExactRanker, score_pairs
from spherec.ranking.ranker import Asked, MergedRanker, Ranker, Ranking, refuse_nan, split_blocks, take_items

try:
    from usearch.index import Index
except ImportError as error:
    from spherec.errors import MissingPackageError

    raise MissingPackageError("an index needs usearch; install it with: pip install usearch") from error

_ADDED = 10_000  # items between two calls of `progress`
_QUERIES = 1024  # asked at once
_LEAST = 64  # items in view, however few are wanted
_Dtype = Literal["f32", "f16", "bf16"]
_METRICS = {"sphere": "ip", "ball": "l2sq"}

# Held in a search: usearch does not promise that threads may search at once. A fork waits for it, because a graph that
# is copied in the middle of a search is locked in the child forever.
_LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


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
        for name, low in (("connectivity", 2), ("expansion_add", 2), ("width", 1)):
            check_number(name, getattr(self, name), low, 1_000_000)
        check_number("exact_beyond", self.exact_beyond, 0, 1)
        check_choice("dtype", self.dtype, get_args(_Dtype))


class UsearchRanker(Ranker):
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
        _add(index, vectors, 0, progress)
        return cls(index, vectors, config)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the index atomically: a file of usearch that ends with a description of its vectors and a checksum."""
        index_file.write_index(path, self._index.save, self.vectors, self.config)

    @classmethod
    def load(
        cls, path: str | PathLike[str], vectors: Vectors, *, width: float | None = None, mmap: bool = False
    ) -> Self:
        """Read the index of these vectors from a file; `width` and `mmap` are as in `CML.use_index`."""
        described, content = index_file.read_index(path, vectors, mmap=mmap)
        config = Hnsw(**described | ({} if width is None else {"width": width}))
        with reading_file(path, index_file.REMEDY):  # such as the format of another usearch
            return cls._view(content, vectors, config)

    @classmethod
    def _view(cls, content: NDArray[np.uint8], vectors: Vectors, config: Hnsw) -> Self:
        """Return the ranker whose graph is in these bytes, which stay as long as it is used."""
        index = _empty(vectors, config)
        index.view(content.data)
        return cls(index, vectors, config, content=content)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._view, (self._to_bytes(), self.vectors, self.config)

    def _to_bytes(self) -> NDArray[np.uint8]:
        """Return the graph as bytes. Searches may go on: they do not change it."""
        return self._content if self._content is not None else np.frombuffer(self._index.save() or b"", dtype=np.uint8)

    def with_vectors(self, vectors: Vectors) -> "UsearchRanker":
        """Return a ranker with the same graph for vectors with the same items and other users."""
        return UsearchRanker(self._index, vectors, self.config, content=self._content)

    def extend(self, vectors: Vectors) -> "UsearchRanker | None":
        """Return a ranker for vectors of these items and more, which are added to a copy of its graph.

        None if one of them has a longer reach than all before: that changes a coordinate of every item.
        """
        first, reach = self.vectors.n_items, vectors.reach
        if reach is not None and longest_reach(reach) > longest_reach(reach[:first]):
            return None
        index = _empty(vectors, self.config)
        index.load(self._to_bytes().data)
        _add(index, vectors, first)
        return UsearchRanker(index, vectors, self.config)

    def search(self, asked: Asked) -> Ranking:
        """Return the k best items for each query, by the graph unless all items are looked at faster.

        The graph cannot keep to `only`, and a long `exclude` leaves too little.
        """
        n_closed = np.array([0 if asked.exclude is None else len(asked.exclude)])
        if asked.only is not None or (n_closed[0] and self._in_view(asked.k, n_closed)[0] > self._most):
            return self._exact.search(asked)
        ranking = Ranking.empty(len(asked.queries), asked.k)
        for block in split_blocks(len(asked.queries), _QUERIES):
            some = asked.select(block)
            left_out = some.left_out.extend(asked.exclude, self.vectors.n_items)
            found = self._rank(replace(some, left_out=left_out, exclude=None))
            ranking.put(block, found.items, found.scores)
        return ranking

    @property
    def _most(self) -> float:
        """Items in view beyond which exact ranking is faster."""
        return self.config.exact_beyond * self.vectors.n_items

    def _rank(self, asked: Asked) -> Ranking:
        """Rank the candidates of the graph; ask it again, or rank exactly, where too few are left."""
        ranking, counts = Ranking.empty(len(asked.queries), asked.k), asked.left_out.counts
        possible = np.minimum(asked.k, self.vectors.n_items - counts)  # (b,)
        view = self._in_view(asked.k, counts)  # (b,) candidates
        pending = np.arange(len(asked.queries))
        while len(pending):
            view[view > self._most] = self.vectors.n_items + 1  # these are ranked exactly, all at once
            count = int(view[pending].min())
            here = view[pending] == count
            rows = pending[here]
            some = asked.select(rows)
            found = self._exact.search(some) if count > self._most else self._find(some, count)
            ranking.put(rows, found.items, found.scores)
            short = rows[(found.items >= 0).sum(1) < possible[rows]]
            view[short] *= 2
            pending = np.concatenate((pending[~here], short))
        return ranking

    def _in_view(self, k: int, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many items to look at (b,) so that k are left; few different numbers, to search many at once."""
        rounded_up = np.where(counts > 0, 2 ** np.ceil(np.log2(np.maximum(counts, 1))), 0)  # to powers of two
        wanted = np.maximum(np.ceil(self.config.width * (k + rounded_up)), _LEAST)
        return np.minimum(wanted, self.vectors.n_items).astype(np.int64)

    def _find(self, asked: Asked, count: int) -> Ranking:
        """Return the k best of `count` candidates for each query (b, D)."""
        queries, left_out = asked.queries, asked.left_out
        n_items, reach = self.vectors.n_items, self.vectors.reach
        share = torch.from_numpy(asked.dial).to(queries.device)  # (b,)
        widened = queries if reach is None else widen_queries(queries, share)  # (b, D) or (b, D + 2)
        with _LOCK:
            matches = self._index.search(widened.cpu().numpy(), count, threads=torch.get_num_threads())
        items = matches.keys.reshape(len(queries), -1).astype(np.int64)  # (b, c)
        counts = np.reshape(getattr(matches, "counts", items.shape[1]), (-1, 1))  # (b, 1); of one query: all are found
        absent = np.arange(items.shape[1]) >= counts  # (b, c)
        items[absent] = 0  # whatever stood there
        rows = np.arange(len(queries))[:, None]  # (b, 1)
        absent |= np.isin(pair_keys(rows, items, n_items), pair_keys(left_out.queries, left_out.items, n_items))
        index = torch.as_tensor(items, device=queries.device)
        scores = score_pairs(self.vectors, reach, queries, index, share).cpu().numpy()  # (b, c)
        refuse_nan(scores)
        scores[absent] = -np.inf
        order = np.lexsort((items, -scores), axis=1)[:, : asked.k]  # of equal scores the lower index first
        items, scores = np.take_along_axis(items, order, 1), np.take_along_axis(scores, order, 1)
        return Ranking(np.where(np.isneginf(scores), -1, items), scores)


def load_index(
    files: index_file.IndexFiles,
    vectors: DenseVectors,
    *,
    width: float | None = None,
    mmap: bool = False,
) -> UsearchRanker | MergedRanker:
    """Read the index of these vectors from its file, or the indexes of all m parts of the items from m files."""
    load = partial(UsearchRanker.load, width=width, mmap=mmap)
    if isinstance(files, str | PathLike):
        return load(files, vectors)
    m = len(files)
    try:
        rankers = [load(file, take_items(vectors, j, m)) for j, file in enumerate(files)]
    except DataError as error:
        raise DataError(f"{error}; {m} files are the indexes of all {m} parts, in their order") from None
    return MergedRanker(rankers, vectors)


def _add(index: Index, vectors: Vectors, first: int, progress: Callable[[int, int], None] | None = None) -> None:
    """Add the items from number `first` on to the graph, with reach as vectors (D + 2) that have it as a coordinate."""
    reach = vectors.reach
    longest = 0.0 if reach is None else longest_reach(reach)
    for block in split_blocks(vectors.n_items - first, _ADDED):
        keys = torch.arange(first + block.start, first + block.stop, device=vectors.device)  # (c,)
        rows = vectors.items(keys)  # (c, D)
        if reach is not None:
            rows = widen_items(rows, reach[keys], longest)  # (c, D + 2)
        try:
            index.add(keys.cpu().numpy().astype(np.uint64), rows.cpu().numpy(), threads=torch.get_num_threads())
        except RuntimeError as error:  # what usearch makes of Ctrl-C
            raise (KeyboardInterrupt if "terminated" in str(error) else error) from None
        if progress is not None:
            progress(first + block.stop, vectors.n_items)


def _empty(vectors: Vectors, config: Hnsw) -> Index:
    return Index(
        ndim=widened_dim(vectors),
        metric=_METRICS[vectors.constraint],
        dtype=config.dtype,
        connectivity=config.connectivity,
        expansion_add=config.expansion_add,
        expansion_search=_LEAST,
    )
