"""What item features add to raw rows, and what their map learns from gradients: products, divided among threads."""

from functools import partial

from torch import Tensor
from torch.nn.functional import pad

from spherec.device import run_at_once, split_work

_ALIGNMENT = 8  # numbers: products of odd widths are slow


def add_features(rows: Tensor, table: Tensor, index: Tensor, weights: Tensor) -> None:
    """Add [x, 1] W to raw rows (P, m, d) in place: features at `index` (m,) in the table, map (P, F + 1, d)."""
    is_item = index < len(table)  # (m,)
    if not is_item.all():
        places = is_item.nonzero()[:, 0]
        some_rows = rows[:, places]
        add_features(some_rows, table, index[places], weights)
        rows[:, places] = some_rows
        return
    width = rows.shape[2]
    weights = pad(weights, (0, -width % _ALIGNMENT))  # (P, F + 1, d')

    def add(some: slice) -> None:
        rows[:, some] += (table.index_select(0, index[some]) @ weights)[..., :width]

    run_at_once([partial(add, some) for some in split_work(len(index), len(index) * weights[0].numel())])


def learn_features(table: Tensor, index: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient (P, F + 1, d) of the map, from that of raw rows (P, m, d) with features at `index` (m,)."""
    active = gradient.ne(0).any(2).any(0).nonzero()[:, 0]  # (n,) the hinge is 0 for most rows
    if len(active) < len(index):
        index, gradient = index[active], gradient[:, active]
    learned = gradient.new_empty(len(gradient), table.shape[1], gradient.shape[2])

    def learn(some: slice) -> None:
        learned[:, some] = table[:, some].index_select(0, index).T @ gradient

    run_at_once([partial(learn, some) for some in split_work(table.shape[1], len(index) * learned[0].numel())])
    return learned
