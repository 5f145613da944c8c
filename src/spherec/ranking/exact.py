"""Exact ranking: every item is scored, a block of queries and a block of items at a time.

A product of matrices rounds a score in one way or another, depending on how many queries and items are multiplied at
once. So it only names candidates: the best k, and all items that rounding might have kept from being among them. Their
scores are then computed anew in double precision, pair by pair (`score_pairs`), and these decide. A list is therefore
the same, bit for bit, whichever other queries were ranked with it, and whichever ranker found its items.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.geometry import Constraint, Vectors
from spherec.ranking.ranker import (
    Indices,
    LeftOut,
    Mainstream,
    Ranking,
    check_dial,
    check_items,
    check_queries,
    check_users,
    refuse_nan,
    split_blocks,
)

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


class ExactRanker:
    """Ranks all items by squared distance; of equally near items, the one with the lower index comes first.

    The score is u·v − |v|²/2, which falls as |u − v|² grows. On the sphere |v|² is the same for all and left out. An
    item with reach gets λ times its reach in addition.

    Args:
        vectors: Vectors of users and items.
        listed: (I,) False for items that nobody gets; by default all items are listed.
        catalogue: Rows to search: the items, or the users, which then stand where items are named here.
    """

    def __init__(
        self,
        vectors: Vectors,
        *,
        listed: NDArray[np.bool_] | None = None,
        catalogue: Literal["items", "users"] = "items",
    ) -> None:
        self.vectors = vectors
        self._blocks = vectors.item_blocks if catalogue == "items" else vectors.user_blocks
        self._gather = vectors.items if catalogue == "items" else vectors.users
        self._size = vectors.n_items if catalogue == "items" else vectors.n_users
        self._reach = vectors.reach if catalogue == "items" else None  # (I,)
        self._unlisted = None if listed is None else torch.as_tensor(~listed, device=vectors.device)  # (I,)

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
        users = check_users(users, self.vectors.n_users)
        ranking = Ranking.empty(len(users), k)
        dial = check_dial(mainstream, len(users), self.vectors)  # (B,)
        rows, closed = self._find_rows(only), self._find_closed(only, exclude)
        room = self._room(len(users), rows)
        for block in split_blocks(len(users), len(room)):
            queries = self.vectors.users(torch.as_tensor(users[block], device=self.vectors.device))  # (b, D)
            left_out = LeftOut.of_users(users[block], without)
            ranking.put(block, *self._rank(queries, int(k), left_out, rows, closed, dial[block], room))
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
        check_queries(queries, self.vectors.dim)
        left_out = LeftOut.of_lists(without, len(queries), self._size)
        ranking = Ranking.empty(len(queries), k)
        dial = check_dial(mainstream, len(queries), self.vectors)  # (B,)
        rows, closed = self._find_rows(only), self._find_closed(only, exclude)
        room = self._room(len(queries), rows)
        for block in split_blocks(len(queries), len(room)):
            some = torch.as_tensor(queries[block], device=self.vectors.device)  # (b, D)
            ranking.put(block, *self._rank(some, int(k), left_out.select(block), rows, closed, dial[block], room))
        return ranking

    def _room(self, n_queries: int, chosen: Tensor | None) -> Tensor:
        """Return memory (b, c) for the scores of b queries with a block of c items; b is how many to rank at once."""
        widest = min(self._size if chosen is None else len(chosen), self.vectors.block_size)
        scores = _SCORES * (_TIMES_ON_GPU if self.vectors.device.type == "cuda" else 1)
        size = min(max(scores // max(widest, 1), 1), max(n_queries, 1))
        return torch.empty(size, widest, device=self.vectors.device)

    def _find_rows(self, only: Indices | None) -> Tensor | None:
        """Return the items (n,) to look at, ascending; None for all, with the others closed."""
        if only is None:
            return None
        few = np.unique(check_items(only, self._size, "only"))
        return torch.as_tensor(few, device=self.vectors.device) if len(few) * _FEW_ITEMS <= self._size else None

    def _find_closed(self, only: Indices | None, exclude: Indices | None) -> Tensor | None:
        """Return the items (I,) that no query gets, None if there are none."""
        if only is None and exclude is None:
            return self._unlisted
        closed = np.full(self._size, only is not None)
        if only is not None:
            closed[check_items(only, self._size, "only")] = False
        if exclude is not None:
            closed[check_items(exclude, self._size, "exclude")] = True
        chosen = torch.as_tensor(closed, device=self.vectors.device)
        return chosen if self._unlisted is None else chosen | self._unlisted

    def _rank(
        self,
        queries: Tensor,
        k: int,
        left_out: LeftOut,
        chosen: Tensor | None,
        closed: Tensor | None,
        dial: NDArray[np.float32],
        room: Tensor,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Rank all items, or those chosen (n,), for queries (b, D) with λ (b,)."""
        rows, own = (torch.as_tensor(part, device=queries.device) for part in (left_out.queries, left_out.items))
        share = torch.as_tensor(dial, device=queries.device)  # (b,)
        more, longest, n_items = k + max(_MORE, k // 8), 1.0, 0
        best = queries.new_empty(len(queries), 0)  # (b, ≤ more) scores as the product has them
        found = torch.empty(len(queries), 0, dtype=torch.int64, device=queries.device)  # (b, ≤ more) item indices
        for index, items in self._walk(chosen):  # (c,), (c, D)
            scores = room.view(-1)[: len(queries) * len(items)].view(len(queries), len(items))  # (b, c)
            _multiply(queries, items, scores)
            if self.vectors.constraint == "ball":
                squares = items.square().sum(1)  # (c,)
                scores -= squares / 2
                longest = max(longest, float(squares.max()))
            if self._reach is not None:
                scores.addr_(share, self._reach[index])
            if closed is not None:
                scores.masked_fill_(closed[index], float("-inf"))
            if len(own):
                scores[_find_columns(index, rows, own, len(items) == self._size)] = float("-inf")
            block_best, columns = _choose_columns(scores, min(more, len(items)))
            block_found = columns + index.start if isinstance(index, slice) else index[columns]
            best, found = torch.cat((best, block_best), 1), torch.cat((found, block_found), 1)
            n_items += len(items)
            if best.shape[1] > more:
                best, order = best.topk(more, dim=1)
                found = found.gather(1, order)
        if not best.shape[1]:
            return found.cpu().numpy(), best.cpu().numpy()
        refuse_nan(best[:, :1].cpu().numpy())  # torch ranks NaN first
        scores = score_pairs(queries, self._gather, found, self.vectors.constraint, self._reach, share)
        scores.masked_fill_(best.isneginf(), float("-inf"))
        top_scores, top_items = _sort_best(scores, found, k)
        if n_items > best.shape[1]:
            error = self._bound_error(queries, share, longest)  # (b,)
            missed = (best[:, -1] >= best[:, min(k, best.shape[1]) - 1] - 2 * error) & (best[:, -1] > float("-inf"))
            for row in missed.nonzero()[:, 0].tolist():
                one = slice(row, row + 1)
                closed_row = self._close_row(closed, own[rows == row], queries.device)
                top_scores[one], top_items[one] = self._rank_fully(queries[one], k, chosen, closed_row, share[one])
        best_scores = top_scores.cpu().numpy()  # (b, k)
        refuse_nan(best_scores)
        return np.where(np.isneginf(best_scores), -1, top_items.cpu().numpy()), best_scores

    def _walk(self, chosen: Tensor | None) -> Iterator[tuple[slice | Tensor, Tensor]]:
        """Yield the indices (c,) and the vectors (c, D) of all items, or of those chosen (n,), block after block."""
        if chosen is not None:
            for index in chosen.tensor_split(-(-len(chosen) // self.vectors.block_size)) if len(chosen) else ():
                yield index, self._gather(index)
            return
        first = 0
        for items in self._blocks():
            yield slice(first, first + len(items)), items
            first += len(items)

    def _bound_error(self, queries: Tensor, share: Tensor, longest: float) -> Tensor:
        """Return how far (b,) a score of the product is from the true one at most, for items of squared length."""
        reach = 0.0 if self._reach is None or not len(self._reach) else float(self._reach.abs().max())
        size: Tensor = queries.norm(dim=1) * longest**0.5 + longest + share.abs() * reach  # (b,)
        backend = torch.backends.cuda if queries.is_cuda else torch.backends.mkldnn
        factors = _ROUNDING_OF_FACTORS[str(backend.matmul.fp32_precision)]
        return size * ((queries.shape[1] + 8) * _ROUNDING + factors)

    def _close_row(self, closed: Tensor | None, own: Tensor, device: torch.device) -> Tensor:
        """Return the items (I,) that one query does not get."""
        all_closed = torch.zeros(self._size, dtype=torch.bool, device=device) if closed is None else closed.clone()
        all_closed[own] = True
        return all_closed

    def _rank_fully(
        self, query: Tensor, k: int, chosen: Tensor | None, closed: Tensor, share: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Rank every item for a query (1, D) by `score_pairs`, where too many are equally near, or nearly so."""
        parts = []
        for index, items in self._walk(chosen):  # (c,), (c, D)
            block = torch.arange(index.start, index.stop, device=query.device) if isinstance(index, slice) else index
            n = items.numel() // _PAIRS + 1
            for some, places in zip(items.tensor_split(n), block.tensor_split(n), strict=True):  # (p, D), (p,)
                reach = None if self._reach is None else self._reach[places]  # (p,)
                scores = _score_rows(query, some, self.vectors.constraint, reach, share)
                parts.append((scores.masked_fill_(closed[places], float("-inf")), places))
        scores, places = (torch.cat(part) for part in zip(*parts, strict=True))  # (n,), (n,) ascending
        last = scores.topk(min(k, len(scores))).values[-1]
        above, equal = (scores > last).nonzero()[:, 0], (scores == last).nonzero()[:, 0]
        enough = torch.cat((above, equal[: k - len(above)]))  # (k,) of equal items those with the lower indices
        return _sort_best(scores[enough][None], places[enough][None], k)


def score_pairs(
    queries: Tensor,
    gather: Callable[[Tensor], Tensor],
    items: Tensor,
    constraint: Constraint,
    reach: Tensor | None,
    share: Tensor,
) -> Tensor:
    """Return the scores (b, m) of queries (b, D) with items (b, m), each rounded once, from double precision.

    The score of a pair does not depend on the other pairs.

    Args:
        queries: (b, D) vectors.
        gather: Returns the vectors of items.
        items: (b, m) indices.
        constraint: The space: in the ball, |v|²/2 is subtracted.
        reach: (I,) reach of the items; None if they have none.
        share: (b,) λ, the share of it that counts.
    """
    size = max(_PAIRS // max(queries.shape[1] * items.shape[1], 1), 1)  # queries at a time
    parts = []
    for first in range(0, len(items), size):
        some = slice(first, first + size)
        near = None if reach is None else reach[items[some]]  # (p, m)
        parts.append(_score_rows(queries[some, None], gather(items[some]), constraint, near, share[some, None]))
    return torch.cat(parts)


def _score_rows(
    queries: Tensor, vectors: Tensor, constraint: Constraint, reach: Tensor | None, share: Tensor
) -> Tensor:
    """Return the scores (…) of queries (…, D) with vectors (…, D), their reach (…) and a share (…) of it."""
    wide = vectors.double()
    scores = (wide * queries.double()).sum(-1)
    if constraint == "ball":
        scores -= wide.square().sum(-1) / 2
    if reach is not None:
        scores += share.double() * reach
    return scores.float()


def _find_columns(index: slice | Tensor, rows: Tensor, own: Tensor, is_whole: bool) -> tuple[Tensor, Tensor]:
    """Return where in a block of items (c,) the items `own` (r,) of the queries `rows` (r,) are."""
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
