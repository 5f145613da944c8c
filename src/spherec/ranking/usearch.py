"""The nearest items of millions, nearly: a search walks a graph of near items (HNSW). Only this file imports usearch.

The graph holds its own, coarser copy of the vectors and names candidates; their scores come from the vectors themselves
and are those of `ExactRanker`. An item may be missed; its score is never wrong.

Yu. A. Malkov, D. A. Yashunin: Efficient and robust approximate nearest neighbor search using Hierarchical Navigable
Small World graphs, 2016.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError
from spherec.geometry import DenseVectors
from spherec.ranking import index_file
from spherec.ranking.exact import ExactRanker
from spherec.ranking.ranker import LeftOut, Ranking, check_queries, in_blocks

try:
    from usearch.index import Index
except ImportError as error:
    from spherec.errors import MissingPackageError

    raise MissingPackageError("an index needs usearch; install it with: pip install 'spherec[ann]'") from error

_ADDED = 10_000  # items between two calls of `progress`
_QUERIES = 1024  # asked at once
_LEAST = 64  # items in view, however few are wanted
_BLOCK = 1 << 20  # numbers of candidates' vectors held at once: 4 MB of float32, which stay in the cache
_Dtype = Literal["f32", "f16", "bf16"]
_METRICS = {"sphere": "ip", "ball": "l2sq"}


@dataclass(frozen=True)
class Hnsw:
    """How the graph is built and searched."""

    connectivity: int = 32
    "Neighbours that an item keeps (M). More find more, and take more memory."
    expansion_add: int = 128
    "Items held in view when one is added (efConstruction). More make a better graph, more slowly."
    width: float = 5.0
    """Items held in view in a search for each one wanted: ef = width · (k + items left out). More find more, more
    slowly. The one setting that a finished index can change."""
    dtype: _Dtype = "bf16"
    "How the graph stores vectors. It names candidates only, so half the precision costs next to nothing."
    exact_beyond: float = 1 / 500
    "Share of the catalogue: a query with more items in view than that is ranked exactly, which is faster then."

    def __post_init__(self) -> None:
        for name in ("connectivity", "expansion_add"):
            if (value := getattr(self, name)) < 2:
                raise ArgumentError(f"{name} must be a whole number >= 2, got {value}")
        if not self.width >= 1:
            raise ArgumentError(f"width must be >= 1, got {self.width}")
        if self.dtype not in get_args(_Dtype):
            raise ArgumentError(f"dtype must be one of {', '.join(get_args(_Dtype))}, got {self.dtype!r}")
        if not 0 <= self.exact_beyond <= 1:
            raise ArgumentError(f"exact_beyond must be between 0 and 1, got {self.exact_beyond}")


class UsearchRanker:
    """A `Ranker` that asks a graph of the items for candidates.

    Always gives as many items as there are: a user's own items take up places among the nearest, so that many more are
    asked for; where still too few are left, twice as many; and beyond `exact_beyond` of the catalogue (users with very
    long histories, very long lists, small catalogues) all items are looked at.
    """

    def __init__(self, index: Index, vectors: DenseVectors, config: Hnsw) -> None:
        self.vectors = vectors.to(torch.device("cpu"))
        self.config = config
        self._index = index
        self._exact = ExactRanker(self.vectors)

    @classmethod
    def build(
        cls, vectors: DenseVectors, config: Hnsw | None = None, *, progress: Callable[[int, int], None] | None = None
    ) -> Self:
        """A new index of the items, in as many threads as torch uses; `progress` is called with (done, all).

        In one thread the same vectors always give the same graph; in more it depends on who comes first.
        """
        config = config or Hnsw()
        items = vectors.item_table.cpu().numpy()  # (I, D)
        index = _empty(items.shape[1], vectors, config)
        for first in range(0, len(items), _ADDED):
            last = min(first + _ADDED, len(items))
            index.add(np.arange(first, last, dtype=np.uint64), items[first:last], threads=torch.get_num_threads())
            if progress is not None:
                progress(last, len(items))
        return cls(index, vectors, config)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the index, whole or not at all: a file of usearch, and at its end which vectors it is of."""
        index_file.write(path, self._index.save, self.vectors, self.config)

    @classmethod
    def load(cls, path: str | PathLike[str], vectors: DenseVectors, *, width: float | None = None) -> Self:
        """The index of these vectors, mapped from the file: what a search needs comes into memory, not more."""
        described = index_file.read(path, vectors) | ({} if width is None else {"width": width})
        with index_file.damage(path):
            config = Hnsw(**described)
        index = _empty(vectors.item_table.shape[1], vectors, config)
        with index_file.damage(path):
            index.view(path)
            if len(index) != len(vectors.item_table):
                raise RuntimeError(f"{len(index):,} items")
        return cls(index, vectors, config)

    def top(self, users: NDArray[np.int64], k: int, *, without: Interactions | None = None) -> Ranking:
        """The k best items for user indices (B,), those that the users have in `without` left out."""

        def rank(part: slice) -> Ranking:
            queries = self.vectors.users(torch.as_tensor(users[part])).numpy()
            return self._rank(queries, k, LeftOut.of_users(users[part], without))

        return in_blocks(len(users), k, _QUERIES, rank)

    def top_of(
        self, queries: NDArray[np.float32], k: int, *, without: Sequence[NDArray[np.integer[Any]]] | None = None
    ) -> Ranking:
        """The k best items for vectors (B, D), those in a query's list of item indices left out."""
        check_queries(queries, self.vectors.item_table.shape[1])
        left_out = LeftOut.of_lists(without, len(queries), len(self.vectors.item_table))
        return in_blocks(len(queries), k, _QUERIES, lambda part: self._rank(queries[part], k, left_out.of(part)))

    def searches(self, k: int, left_out: int) -> bool:
        """Whether the graph is asked for k items where so many are left out, or all items are looked at."""
        return bool(self._in_view(k, np.array([left_out]))[0] <= self._most)

    @property
    def _most(self) -> float:
        """Items in view, beyond which exact ranking is faster."""
        return self.config.exact_beyond * len(self.vectors.item_table)

    def _rank(self, queries: NDArray[np.float32], k: int, left_out: LeftOut) -> Ranking:
        n_items = len(self.vectors.item_table)
        items = np.full((len(queries), k), -1, dtype=np.int64)
        scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
        possible = np.minimum(k, n_items - left_out.counts)  # (b,)
        ask = self._in_view(k, left_out.counts)  # (b,) candidates
        pending = np.arange(len(queries))
        while len(pending):
            beyond = ask[pending] > self._most
            rows = pending[beyond]
            if len(rows):
                exact = self._exact.top_without(queries[rows], k, left_out.of(rows))
                items[rows], scores[rows] = exact.items, exact.scores
            few = []  # those who got too few
            for count in np.unique(ask[pending[~beyond]]):
                rows = pending[~beyond][ask[pending[~beyond]] == count]
                items[rows], scores[rows] = self._searched(queries[rows], int(count), k, left_out.of(rows))
                few.append(rows[(items[rows] >= 0).sum(1) < possible[rows]])
            pending = np.concatenate(few) if few else pending[:0]
            ask[pending] *= 2
        return Ranking(items, scores)

    def _in_view(self, k: int, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many items to look at (b,), so that k are left of them; few different numbers, to search many at once."""
        rounded_up = np.where(counts > 0, 2 ** np.ceil(np.log2(np.maximum(counts, 1))), 0)  # to powers of two
        wanted = np.maximum(np.ceil(self.config.width * (k + rounded_up)), _LEAST)
        return np.minimum(wanted, len(self.vectors.item_table)).astype(np.int64)

    def _searched(
        self, queries: NDArray[np.float32], count: int, k: int, left_out: LeftOut
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The k best (b, k) of `count` candidates each, and their scores."""
        n_items = len(self.vectors.item_table)
        found = self._index.search(queries, count, threads=torch.get_num_threads())  # looks at `count`, too
        items = found.keys.reshape(len(queries), -1).astype(np.int64)  # (b, c)
        counts = np.reshape(getattr(found, "counts", items.shape[1]), (-1, 1))  # (b, 1); of one query: all are found
        absent = np.arange(items.shape[1]) >= counts  # (b, c)
        items[absent] = 0  # whatever stood there
        rows = np.arange(len(queries))[:, None]  # (b, 1)
        absent |= np.isin(rows * n_items + items, left_out.queries * n_items + left_out.items)
        scores = self._scores(queries, items)  # (b, c)
        scores[absent] = -np.inf
        order = np.lexsort((items, -scores), axis=1)[:, :k]  # of equal scores the lower index first
        items, scores = np.take_along_axis(items, order, 1), np.take_along_axis(scores, order, 1)
        padding = ((0, 0), (0, k - items.shape[1]))
        items = np.pad(np.where(np.isneginf(scores), -1, items), padding, constant_values=-1)
        return items, np.pad(scores, padding, constant_values=-np.inf)

    def _scores(self, queries: NDArray[np.float32], items: NDArray[np.int64]) -> NDArray[np.float32]:
        """Of items (b, c), as `ExactRanker` has them."""
        scores = np.empty(items.shape, dtype=np.float32)
        size = max(_BLOCK // (items.shape[1] * queries.shape[1]), 1)  # queries at a time
        for first in range(0, len(items), size):
            part = slice(first, first + size)
            vectors = self.vectors.items(torch.as_tensor(items[part]))  # (p, c, D)
            dots = (vectors @ torch.as_tensor(queries[part])[:, :, None])[..., 0]  # (p, c)
            if self.vectors.constraint == "ball":
                dots -= vectors.square().sum(-1) / 2
            scores[part] = dots.numpy()
        return scores


def _empty(dim: int, vectors: DenseVectors, config: Hnsw) -> Index:
    return Index(
        ndim=dim,
        metric=_METRICS[vectors.constraint],
        dtype=config.dtype,
        connectivity=config.connectivity,
        expansion_add=config.expansion_add,
        expansion_search=_LEAST,
    )
