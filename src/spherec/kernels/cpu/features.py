"""Products with the features of items, each item once as long as W stays, divided among the threads of a step."""

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from spherec.device import run_at_once, split_work
from spherec.kernels.cpu.compiled import choose_factors, compiled
from spherec.kernels.protocol import Floats, Ints
from spherec.kernels.reference.features import ReferenceFeatures
from spherec.lazy import Lazy

_Places = NDArray[np.int32]

_ALIGNMENT = 8  # numbers: products of odd widths are slow
_BLOCK = 128  # items; torch compiles a product of bfloat16 for each size, so there should be few sizes
_WORK = 10  # multiplications that take as long as adding a number


class CpuFeatures(ReferenceFeatures):
    """Products that are kept as long as W stays: a sampler has seen most items that its step learns from."""

    def __init__(self, numbers: Tensor) -> None:
        self._numbers = numbers  # (I, F + 1)
        self._weights = numbers.new_empty(0)  # (P, F + 1, d) W of the products
        self._products = numbers.new_empty(0)  # (P, n, d) [x, 1] W
        self._items = torch.empty(0, dtype=torch.int64)  # (n,) their items
        self._places = np.full(len(numbers), -1, np.int32)  # (I,) of all items among these n; -1 for none

    def add(self, rows: Tensor, index: Tensor, weights: Tensor, keep: Tensor | None = None) -> None:
        if not torch.equal(weights, self._weights):
            self._places[self._items.numpy()] = -1
            self._weights, self._items = weights, self._items[:0]
        self._of_last, new = find_places(index.numpy(), self._places, len(self._items))  # (m,), (n',)
        if len(new):
            items, products = torch.from_numpy(new), self._multiply(torch.from_numpy(new))
            self._products = torch.cat((self._products, products), dim=1) if len(self._items) else products
            self._items = torch.cat((self._items, items))
        if not len(self._items):  # all are users
            return
        places, kept = self._of_last, _to_numpy(keep, len(index))

        def add(some: slice) -> None:
            for part, products in zip(rows, self._products, strict=True):
                add_rows(part[some].numpy(), products.numpy(), places[some], kept[some])

        run_at_once([partial(add, some) for some in split_work(len(index), rows.numel() * _WORK)])

    def learn(self, gradient: Tensor, keep: Tensor | None = None) -> Tensor:
        parts, count, width = gradient.shape
        columns, places = assign_columns(gradient.numpy(), self._of_last, len(self._items))  # (m,), (n,)
        items = _fill(self._items[torch.from_numpy(places)])
        totals = gradient.new_zeros(parts, len(items), width)
        given = columns, _to_numpy(keep, count)
        run_at_once([partial(sum_rows, *each, *given) for each in zip(gradient.numpy(), totals.numpy(), strict=True)])
        work = len(items) * self._numbers.shape[1] * width
        table, totals = self._round(totals, work)
        learned = gradient.new_empty(parts, self._numbers.shape[1], width)

        def learn(some: slice) -> None:
            numbers = table[:, some].index_select(0, items).T  # (some, n)
            for part, total in zip(learned, totals, strict=True):
                part[some] = numbers @ total

        run_at_once([partial(learn, some) for some in split_work(learned.shape[1], work)])
        return learned

    def _multiply(self, items: Tensor) -> Tensor:
        """Return [x, 1] W (P, n, d) of items (n,)."""
        (parts, height, width), count, items = self._weights.shape, len(items), _fill(items)
        work = len(items) * height * width
        table, weights = self._round(pad(self._weights, (0, -width % _ALIGNMENT)), work)  # (I, F + 1), (P, F + 1, d')
        products = self._weights.new_empty(parts, len(items), width)

        def multiply(some: slice) -> None:
            numbers = table.index_select(0, items[some])  # (some, F + 1)
            for part, weight in zip(products, weights, strict=True):
                part[some] = (numbers @ weight)[:, :width]

        run_at_once([partial(multiply, some) for some in split_work(len(items), work)])
        return products[:, :count]

    def _round(self, factor: Tensor, work: int) -> tuple[Tensor, Tensor]:
        """Return the features (I, F + 1) and the other factor of a product with so many multiplications."""
        kind = choose_factors(work)
        return self._numbers if kind == self._numbers.dtype else self._rounded, factor.to(kind)

    @Lazy
    def _rounded(self) -> Tensor:
        """(I, F + 1) features as bfloat16."""
        return self._numbers.bfloat16()


def _to_numpy(keep: Tensor | None, count: int) -> Floats:
    return np.ones(count, np.float32) if keep is None else keep.numpy()


def _fill(items: Tensor) -> Tensor:
    """Return items (n,) followed by zeros, a multiple of `_BLOCK` in all."""
    return pad(items, (0, -len(items) % _BLOCK))


@compiled()
def find_places(index: Ints, places: _Places, known: int) -> tuple[_Places, Ints]:
    """Return the places of indices (m,), and items (n,) that had none: they get the next ones after those known.

    `places` (I,) are those of all items. Users, whose indices begin at I, have none: -1.
    """
    found, new, count = np.full(len(index), -1, np.int32), np.empty_like(index), 0
    for at in range(len(index)):
        item = index[at]
        if item < len(places):
            if places[item] < 0:
                places[item] = known + count
                new[count] = item
                count += 1
            found[at] = places[item]
    return found, new[:count].copy()


@compiled()
def add_rows(rows: Floats, products: Floats, places: _Places, keep: Floats) -> None:
    """Add to rows (m, d) the products (n, d) at their places; rows that are not kept are replaced by them."""
    for at in range(len(places)):
        if places[at] >= 0:
            row, product, share = rows[at], products[places[at]], keep[at]
            for d in range(len(row)):
                row[d] = share * row[d] + product[d]


@compiled()
def assign_columns(gradient: Floats, places: _Places, known: int) -> tuple[_Places, Ints]:
    """Return the columns (m,) in which gradients (P, m, d) of one place (m,) meet, and the place of each column (n,).

    Where the gradient is 0, as that of many rows under the hinge, the column is -1.
    """
    taken, columns = np.full(known, -1, np.int32), np.full(len(places), -1, np.int32)
    chosen, count = np.empty(known, np.int64), 0
    for at in range(len(places)):
        if gradient[:, at].any():
            if taken[places[at]] < 0:
                taken[places[at]] = count
                chosen[count] = places[at]
                count += 1
            columns[at] = taken[places[at]]
    return columns, chosen[:count].copy()


@compiled()
def sum_rows(gradient: Floats, totals: Floats, columns: _Places, keep: Floats) -> None:
    """Add up the gradients (m, d) of each column in totals (n, d); then those that are not kept become 0."""
    for at in range(len(columns)):
        if columns[at] >= 0:
            row, total, share = gradient[at], totals[columns[at]], keep[at]
            for d in range(len(row)):
                total[d] += row[d]
                row[d] *= share
