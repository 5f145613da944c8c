"""Exact ranking: every item is scored, a block of queries and a block of items at a time.

A product of matrices rounds a score in one way or another, depending on how many queries and items are multiplied at
once. So it only names candidates: the best k, and all items that rounding might have kept from being among them. Their
scores are then computed anew in double precision, pair by pair (`score_pairs`), and these decide. A list is therefore
the same, bit for bit, whichever other queries were ranked with it, and whichever ranker found its items.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.geometry import Constraint, Vectors
from spherec.ranking.ranker import Asked, Indices, Ranker, Ranking, refuse_nan, split_blocks

_SCORES = 1 << 24  # held at once: 64 MB of float32
_TIMES_ON_GPU = 16
_COLUMNS = 512  # multiplied at once
_FEW_QUERIES = 10  # fewer are multiplied as columns
_TILE = 64  # columns
_FEW_TILES = 4  # for each column that is wanted; fewer are sorted at once
_MORE = 16  # candidates beyond k
_PAIRS = 1 << 20  # numbers of candidates' vectors held at once: 4 MB of float32, which stay in the cache
_FEW_ITEMS = 8  # fewer than this part of the catalogue are gathered instead of ranking all and closing the others
_ROUNDING = 2.0**-24  # largest relative error of one operation in float32
_ROUNDING_OF_FACTORS = {"ieee": 0.0, "none": 0.0, "tf32": 2.0**-9, "bf16": 2.0**-6}  # where torch may shorten them


@dataclass(frozen=True)
class _Block:
    """Some queries that are ranked at once."""

    queries: Tensor
    "(b, D)"
    share: Tensor
    "(b,) λ."
    rows: Tensor
    "(r,) the query of each item that a query must not get."
    own: Tensor
    "(r,) these items."
    chosen: Tensor | None
    "(n,) items to look at, ascending; None for all."
    closed: Tensor | None
    "(I,) True for items that no query gets; None if there are none."


class ExactRanker(Ranker):
    """Ranks all items by squared distance.

    The score is u·v − |v|²/2, which falls as |u − v|² grows. On the sphere |v|² is the same for all and left out. An
    item with reach gets λ times its reach in addition.

    Args:
        vectors: Vectors of users and items.
        listed: (I,) False for items that nobody gets; by default all items are listed.
    """

    def __init__(self, vectors: Vectors, *, listed: NDArray[np.bool_] | None = None) -> None:
        self.vectors = vectors
        self._reach = vectors.reach  # (I,) which a run in progress computes anew each time
        self._unlisted = None if listed is None else torch.as_tensor(~listed, device=vectors.device)  # (I,)

    def search(self, asked: Asked) -> Ranking:
        """Return the k best items for each query, some queries at a time."""
        ranking, device = Ranking.empty(len(asked.queries), asked.k), self.vectors.device
        is_short = asked.only is not None and len(asked.only) * _FEW_ITEMS <= self.vectors.n_items
        chosen = torch.as_tensor(asked.only, device=device) if is_short else None
        closed = self._find_closed(None if is_short else asked.only, asked.exclude)
        room = self._make_room(len(asked.queries), chosen)
        for rows in split_blocks(len(asked.queries), len(room)):
            some = asked.select(rows)
            numbers = (some.dial, some.left_out.queries, some.left_out.items)
            share, query, own = (torch.as_tensor(each, device=device) for each in numbers)
            block = _Block(some.queries, share, query, own, chosen, closed)
            candidates = self._find_candidates(block, asked.k + max(_MORE, asked.k // 8), room)
            ranking.put(rows, *self._sort_candidates(block, asked.k, *candidates))
        return ranking

    def _make_room(self, n_queries: int, chosen: Tensor | None) -> Tensor:
        """Return memory (b, c) for the scores of b queries with a block of c items; b is how many to rank at once."""
        widest = min(self.vectors.n_items if chosen is None else len(chosen), self.vectors.block_size)
        scores = _SCORES * (_TIMES_ON_GPU if self.vectors.device.type == "cuda" else 1)
        size = min(max(scores // max(widest, 1), 1), max(n_queries, 1))
        return torch.empty(size, widest, device=self.vectors.device)

    def _find_closed(self, only: Indices | None, exclude: Indices | None) -> Tensor | None:
        """Return the items (I,) that no query gets, None if there are none."""
        if only is None and exclude is None:
            return self._unlisted
        closed = np.full(self.vectors.n_items, only is not None)
        if only is not None:
            closed[only] = False
        if exclude is not None:
            closed[exclude] = True
        as_tensor = torch.as_tensor(closed, device=self.vectors.device)
        return as_tensor if self._unlisted is None else as_tensor | self._unlisted

    def _sort_candidates(
        self, block: _Block, k: int, rounded: Tensor, items: Tensor, longest: float
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the best items (b, ≤ k) of a block and their scores, out of what `_find_candidates` returned."""
        if not items.shape[1]:
            return items.cpu().numpy(), rounded.cpu().numpy()
        refuse_nan(rounded[:, :1].cpu().numpy())  # torch ranks NaN first
        scores = score_pairs(self.vectors, self._reach, block.queries, items, block.share)
        scores.masked_fill_(rounded.isneginf(), float("-inf"))
        top_scores, top_items = _sort_best(scores, items, k)
        n_items = self.vectors.n_items if block.chosen is None else len(block.chosen)
        if n_items > rounded.shape[1]:
            last, best_left_out = rounded[:, min(k, rounded.shape[1]) - 1], rounded[:, -1]  # (b,)
            missed = (best_left_out >= last - 2 * self._bound_error(block, longest)) & ~best_left_out.isneginf()
            for row in missed.nonzero()[:, 0].tolist():
                top_scores[row], top_items[row] = self._rank_fully(block, row, k)
        best_scores = top_scores.cpu().numpy()  # (b, k)
        refuse_nan(best_scores)
        return np.where(np.isneginf(best_scores), -1, top_items.cpu().numpy()), best_scores

    def _find_candidates(self, block: _Block, n: int, room: Tensor) -> tuple[Tensor, Tensor, float]:
        """Return the best scores (b, ≤ n) as the product rounds them, their items, and the largest |v|² (in the ball).

        `room` is memory for the scores of a block of items.
        """
        queries, longest = block.queries, 1.0
        best = queries.new_empty(len(queries), 0)
        found = torch.empty(len(queries), 0, dtype=torch.int64, device=queries.device)
        for index, items in self._walk(block.chosen):  # (c,), (c, D)
            scores = room.view(-1)[: len(queries) * len(items)].view(len(queries), len(items))  # (b, c)
            _multiply(queries, items, scores)
            if self.vectors.constraint == "ball":
                squares = items.square().sum(1)  # (c,)
                scores -= squares / 2
                longest = max(longest, float(squares.max()))
            if self._reach is not None:
                scores.addr_(block.share, self._reach[index])
            if block.closed is not None:
                scores.masked_fill_(block.closed[index], float("-inf"))
            if len(block.own):
                scores[_find_columns(index, block, len(items) == self.vectors.n_items)] = float("-inf")
            block_best, columns = _choose_columns(scores, min(n, len(items)))
            block_found = columns + index.start if isinstance(index, slice) else index[columns]
            best, found = torch.cat((best, block_best), 1), torch.cat((found, block_found), 1)
            if best.shape[1] > n:
                best, order = best.topk(n, dim=1)
                found = found.gather(1, order)
        return best, found, longest

    def _walk(self, chosen: Tensor | None) -> Iterator[tuple[slice | Tensor, Tensor]]:
        """Yield the indices (c,) and the vectors (c, D) of all items, or of those chosen (n,), block after block."""
        if chosen is not None:
            for index in chosen.tensor_split(-(-len(chosen) // self.vectors.block_size)) if len(chosen) else ():
                yield index, self.vectors.items(index)
            return
        first = 0
        for items in self.vectors.item_blocks():
            yield slice(first, first + len(items)), items
            first += len(items)

    def _bound_error(self, block: _Block, longest: float) -> Tensor:
        """Return how far (b,) a score of the product is from the true one at most, for items of squared length."""
        queries, reach = block.queries, self._reach
        most = 0.0 if reach is None or not len(reach) else float(reach.abs().max())
        size: Tensor = queries.norm(dim=1) * longest**0.5 + longest + block.share.abs() * most  # (b,)
        backend = torch.backends.cuda if queries.is_cuda else torch.backends.mkldnn
        factors = _ROUNDING_OF_FACTORS[str(backend.matmul.fp32_precision)]
        return size * ((queries.shape[1] + 8) * _ROUNDING + factors)

    def _rank_fully(self, block: _Block, row: int, k: int) -> tuple[Tensor, Tensor]:
        """Rank every item for one query (k,) as `score_pairs` does, where too many are equally near, or nearly so."""
        none = torch.zeros(self.vectors.n_items, dtype=torch.bool, device=block.queries.device)
        closed = none if block.closed is None else block.closed.clone()  # (I,)
        closed[block.own[block.rows == row]] = True
        parts = []
        for index, items in self._walk(block.chosen):  # (c,), (c, D)
            every = torch.arange(index.start, index.stop, device=items.device) if isinstance(index, slice) else index
            n = items.numel() // _PAIRS + 1
            for some, places in zip(items.tensor_split(n), every.tensor_split(n), strict=True):  # (p, D), (p,)
                reach = None if self._reach is None else self._reach[places]  # (p,)
                scores = _score_rows(block.queries[row], some, self.vectors.constraint, block.share[row], reach)
                parts.append((scores.masked_fill_(closed[places], float("-inf")), places))
        scores, places = (torch.cat(part) for part in zip(*parts, strict=True))  # (n,), (n,) ascending
        last = scores.topk(min(k, len(scores))).values[-1]
        above, equal = (scores > last).nonzero()[:, 0], (scores == last).nonzero()[:, 0]
        enough = torch.cat((above, equal[: k - len(above)]))  # (k,) of equal items those with the lower indices
        best, best_items = _sort_best(scores[enough][None], places[enough][None], k)
        return best[0], best_items[0]


def score_pairs(vectors: Vectors, reach: Tensor | None, queries: Tensor, items: Tensor, share: Tensor) -> Tensor:
    """Return the scores (b, m) of queries (b, D) with items (b, m), each rounded once, from double precision.

    `reach` is that of the vectors (I,), and `share` is λ (b,). The score of a pair does not depend on the other pairs.
    """
    size = max(_PAIRS // max(queries.shape[1] * items.shape[1], 1), 1)  # queries at a time
    parts = []
    for rows in split_blocks(len(items), size):
        index = items[rows]  # (p, m)
        near = None if reach is None else reach[index]  # (p, m)
        rows_of_items = vectors.items(index)  # (p, m, D)
        parts.append(_score_rows(queries[rows, None], rows_of_items, vectors.constraint, share[rows, None], near))
    return torch.cat(parts)


def _score_rows(queries: Tensor, items: Tensor, constraint: Constraint, share: Tensor, reach: Tensor | None) -> Tensor:
    """Return the scores (…) of queries (…, D) with items (…, D), of whose reach (…) a share (…) counts."""
    wide = items.double()
    scores = (wide * queries.double()).sum(-1)
    if constraint == "ball":
        scores -= wide.square().sum(-1) / 2
    if reach is not None:
        scores += share.double() * reach
    return scores.float()


def _find_columns(index: slice | Tensor, block: _Block, is_whole: bool) -> tuple[Tensor, Tensor]:
    """Return where in a part of the items (c,) those are that queries must not get: rows (r,) and columns (r,)."""
    rows, own = block.rows, block.own
    if isinstance(index, Tensor):
        columns = torch.searchsorted(index, own).clamp_max(len(index) - 1)
        inside = index[columns] == own
        return rows[inside], columns[inside]
    if is_whole:  # then nothing has to be sorted out, which would wait for a GPU
        return rows, own
    inside = (own >= index.start) & (own < index.stop)
    return rows[inside], own[inside] - index.start


def _multiply(queries: Tensor, items: Tensor, products: Tensor) -> None:
    """Write the dot products of queries (b, D) with items (c, D) into `products` (b, c).

    On a CPU, few queries are multiplied as columns, and many with some items at a time, which stay in the cache.
    """
    if items.is_cuda:
        torch.mm(queries, items.T, out=products)
        return
    if len(queries) < _FEW_QUERIES:
        columns = (queries if len(queries) > 1 else queries.repeat(2, 1)).T  # (D, b); a single one would be slow
        products.copy_((items @ columns).T[: len(queries)])
        return
    parts = len(items) // _COLUMNS
    whole = parts * _COLUMNS
    rows = torch.unflatten(items[:whole], 0, (parts, _COLUMNS))  # (p, _COLUMNS, D)
    blocks = torch.unflatten(products[:, :whole], 1, (parts, _COLUMNS)).transpose(0, 1)  # (p, b, _COLUMNS)
    torch.bmm(queries.expand(parts, -1, -1), rows.transpose(1, 2), out=blocks)
    torch.mm(queries, items[whole:].T, out=products[:, whole:])


def _choose_columns(scores: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return the n largest scores (b, n) of each row (b, c), largest first, and their columns.

    They lie in the n tiles of columns with the largest maxima: so most scores are looked at once, and not sorted.
    """
    width = scores.shape[1] // _TILE * _TILE
    if width < _FEW_TILES * n * _TILE:
        best, columns = scores.topk(n, dim=1)
        return best, columns
    tiles = torch.unflatten(scores[:, :width], 1, (-1, _TILE))  # (b, t, _TILE)
    near = tiles.amax(2).topk(n, dim=1).indices[:, :, None]  # (b, n, 1)
    within = torch.arange(_TILE, device=scores.device)
    rest = torch.arange(width, scores.shape[1], device=scores.device).expand(len(scores), -1)
    columns = torch.cat(((near * _TILE + within).flatten(1), rest), 1)  # (b, n · _TILE and those behind the last tile)
    best, order = scores.gather(1, columns).topk(n, dim=1)
    return best, columns.gather(1, order)


def _sort_best(scores: Tensor, items: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest scores (b, ≤ k) of each row (b, m) and their items; equal scores by ascending index."""
    items, order = items.sort(dim=1)
    scores, order = scores.gather(1, order).sort(dim=1, descending=True, stable=True)
    return scores[:, :k], items.gather(1, order)[:, :k]
