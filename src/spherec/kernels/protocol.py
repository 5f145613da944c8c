"""The arrays that all backends work on. `spherec.kernels.reference` has their operations."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from spherec.geometry import Constraint

Directions = Callable[[Tensor], Tensor]
"""Function that maps item indices (m,) to their vectors of length 1 (m, D)."""


class AdamState(NamedTuple):
    """The tensors of one table under dense Adam; backends change them in place."""

    table: Tensor
    "(n, D) each row as of its own last step."
    mean: Tensor
    "(n, D) m."
    square: Tensor
    "(n, D) v."
    last: Tensor
    "(n,) l, the last step that moved the row."
    steps: Tensor
    "(1,) steps so far; a tensor, because reading a number from a GPU would wait for it."


class AdamRates(NamedTuple):
    """The constants of dense Adam. `spherec.optim` has the formulas."""

    learning_rate: float
    epsilon: float
    beta1: float
    beta2: float
    correction: Tensor
    "(S,) c, float64 on the device, as the next two."
    ahead: Tensor
    "(S,) A."
    ahead_epsilon: Tensor
    "(S,) B."


class LawTables(NamedTuple):
    """A law over items in whole numbers, and the numbers that each user's items leave free.

    `spherec.sampling.draw` explains the method.
    """

    total: int
    "T, numbers in all."
    ends: Tensor
    "(I,) the number past those of each item."
    owned: Tensor
    "(E + 1,) numbers owned by all pairs before each."
    starts: Tensor
    "(U + 1,) the first pair of each user."
    free: Tensor
    "(U,) numbers that a user's own items do not own."
    keys: Tensor
    "(E,) ascending: T times the user, plus the free numbers before each of their items."


class OwnItems(NamedTuple):
    """The items of every user, in rows."""

    starts: NDArray[np.int64]
    "(U + 1,)"
    items: NDArray[np.int32]
    "(E,) the items of user 0, then of user 1 …, ascending in each row."
    n_items: int
    "I."


class Candidates(NamedTuple):
    """Distinct items, and the number of times that each was drawn."""

    items: Tensor
    "(C,) item indices."
    multiplicity: Tensor
    "(C,) float32; 0 where there is no candidate in this place."


class TwoStageLaw(NamedTuple):
    """The laws of both stages. `spherec.sampling.two_stage` explains them."""

    stage_one: LawTables
    log_law: Tensor
    "(I,) the logarithm of the law of stage one, float32."
    n_candidates: int
    "C."
    draws: int
    "Draws that surely hold C distinct items."
    replacement: bool
    "True if stage one may draw an item more than once."
    by_noise: bool
    "True if the first distinct of many draws would cost more than noise over all items."
    exponent: float
    "Exponent of 1 − s² in the weights of stage two."
    cap: float
    "Larger s count as this."


Gradient = Callable[..., tuple[Tensor, Tensor]]
"""Function of a backend: from rows, valid and the settings of one loss to the gradient and three sums."""


class FusedGradient(Protocol):
    """A faster way to the gradient than autograd."""

    def __call__(
        self, rows: Tensor, valid: Tensor, log_q: Tensor | None, weights: Tensor | None, dial: Tensor | None, /
    ) -> tuple[Tensor, Tensor]:
        """Return the gradient of the rows and three sums: loss, active pairs, places without a negative.

        The sums (3,) are means over the subspaces. They may also come in parts (3, …), for the caller to add up.

        Args:
            rows: (P, 2 B + M, d) raw rows of B users, B positives and M negatives in P subspaces; with reach
                (P, 2 B + M, d + 1).
            valid: (B, N) false in places without a negative.
            log_q: (B | 1, N) log of the probability with which each negative was drawn.
            weights: (B,) weights of pairs; None if they all weigh the same.
            dial: (B,) λ of pairs; None without reach.
        """


class GradientTask(NamedTuple):
    """Everything that a fused gradient must know about a run."""

    n_items: int
    "I, items in the catalogue."
    constraint: Constraint
    "Space of the vectors: sphere or ball."
    shared: bool
    "True if a batch shares its negatives: M is N then, otherwise B N."
    weighted: bool
    "True if pairs have weights."
    reach: bool = False
    "True if the last number of an item's row is its reach; users have an idle one there."


Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
