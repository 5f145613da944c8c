"""Products with the features of items, divided among the threads of a step."""

from functools import partial

from torch import Tensor
from torch.nn.functional import pad

from spherec.device import run_at_once, split_work
from spherec.kernels.reference.features import ReferenceFeatures

_ALIGNMENT = 8  # numbers: products of odd widths are slow


class CpuFeatures(ReferenceFeatures):
    """Products in several threads."""

    def add(self, rows: Tensor, index: Tensor, weights: Tensor, keep: Tensor | None = None) -> None:
        """Add [x, 1] W of indices (m,) to raw rows (P, m, d) in place; rows where `keep` (m,) is 0 are replaced."""
        self._last = index
        is_item = index < len(self._numbers)  # (m,)
        if not is_item.all():
            places = is_item.nonzero()[:, 0]
            some_rows = rows[:, places]
            self.add(some_rows, index[places], weights, None if keep is None else keep[places])
            rows[:, places] = some_rows
            return
        width = rows.shape[2]
        weights = pad(weights, (0, -width % _ALIGNMENT))  # (P, F + 1, d')

        def add(some: slice) -> None:
            given = (self._numbers.index_select(0, index[some]) @ weights)[..., :width]  # (P, some, d)
            if keep is None:
                rows[:, some] += given
            else:
                given.addcmul_(rows[:, some], keep[some, None])
                rows[:, some] = given

        run_at_once([partial(add, some) for some in split_work(len(index), len(index) * weights[0].numel())])

    def learn(self, gradient: Tensor, keep: Tensor | None = None) -> Tensor:
        """Return the gradient (P, F + 1, d) of W, from that of the raw rows (P, m, d); 0 follows where `keep` is 0."""
        index, given = self._last, gradient
        active = gradient.any(2).any(0).nonzero()[:, 0]  # (n,) of the hinge, many rows have none
        if len(active) < len(index):
            index, given = index[active], gradient[:, active]
        learned = gradient.new_empty(len(gradient), self._numbers.shape[1], gradient.shape[2])

        def learn(some: slice) -> None:
            learned[:, some] = self._numbers[:, some].index_select(0, index).T @ given

        work = len(index) * learned[0].numel()
        run_at_once([partial(learn, some) for some in split_work(learned.shape[1], work)])
        if keep is not None:
            gradient *= keep[:, None]
        return learned
