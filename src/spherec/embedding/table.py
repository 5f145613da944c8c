"""An embedding that is a table of rows moved by dense Adam."""

from torch import Tensor

from spherec.geometry import Constraint
from spherec.optim import Adam, DenseAdam


class EmbeddingTable:
    """One table ((I + U) P, d) for items and users: half as many calls as with two.

    `rows` (I + U, P, d) are the first rows, items before users; `planned` is the number of steps that a schedule spans.
    """

    def __init__(self, rows: Tensor, config: Adam, *, constraint: Constraint, planned: int) -> None:
        self._count, self.subspaces, self._dim = rows.shape
        table = rows.flatten(0, 1)
        self.optimizer = DenseAdam(table, config, constraint=constraint, planned=planned)

    def __len__(self) -> int:
        return self._count

    def rows(self, index: Tensor) -> Tensor:
        return self.optimizer.rows(index, self.subspaces)

    def block(self, first: int, past: int) -> Tensor:
        rows = self.optimizer.block(first * self.subspaces, past * self.subspaces)
        return rows.view(-1, self.subspaces, self._dim)

    def training_rows(self, index: Tensor, n_users: int) -> Tensor:
        del n_users
        return self.rows(index)

    def step(self, index: Tensor, gradient: Tensor, n_users: int) -> None:
        del n_users
        self.optimizer.step(index, gradient)

    def state(self) -> dict[str, Tensor]:
        return self.optimizer.state()
