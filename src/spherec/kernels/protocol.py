"""The operations that every backend has, as protocols, and the arrays that they work on."""

from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import torch
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


class AdamRows(Protocol):
    """Rows of a table under dense Adam.

    With `parts`, indices (m,) stand for groups of P rows that lie next to each other: the table's P · index to
    P · index + P − 1. Rows (P m, D) are then the first of all groups, the second of all …
    """

    def read(self, index: Tensor, parts: int = 1) -> Tensor:
        """Return the rows (P m, D) at indices (m,) as of now, a copy."""

    def read_range(self, first: int, past: int) -> Tensor:
        """Return the rows from `first` to `past` - 1 as of now, a copy."""

    def move(self, index: Tensor, gradient: Tensor, parts: int = 1) -> None:
        """Make the step after `steps`, and count it: gradients (P m, D) for the rows at indices (m,)."""


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


class LawDraws(Protocol):
    """Independent draws from a law, with replacement."""

    def any(self, n: int, generator: torch.Generator) -> Tensor:
        """Return items (n,)."""

    def without(self, users: Tensor, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return n items (B, n) that each user (B,) does not have, and whether there is any (B, n)."""


class OwnItems(NamedTuple):
    """The items of every user, in rows."""

    starts: NDArray[np.int64]
    "(U + 1,)"
    items: NDArray[np.int32]
    "(E,) the items of user 0, then of user 1 …, ascending in each row."
    n_items: int
    "I."


class MembershipMask(Protocol):
    """Answers for many users and items at once who has what."""

    def mask(self, users: Tensor, items: Tensor) -> Tensor:
        """Return a mask (B, C): whether user b (B,) has item c (C,)."""


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


class TwoStageDraws(Protocol):
    """Draws of two-stage sampling: candidates for a batch, then negatives for each pair."""

    def candidates(self, generator: torch.Generator) -> Candidates:
        """Draw stage one."""

    def draw(
        self, users: Tensor, positives: Tensor, directions: Directions, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Draw both stages: n distinct items (B, n) for each pair (B,), (B,), and whether there was one (B, n)."""


class FeatureProducts(Protocol):
    """Products with the features of items. `spherec.embedding.features` has the formula."""

    def add(self, rows: Tensor, index: Tensor, weights: Tensor, keep: Tensor | None = None) -> None:
        """Add [x, 1] W of indices (m,) to raw rows (P, m, d) in place; rows where `keep` (m,) is 0 are replaced.

        `weights` (P, F + 1, d) is W. Indices from I on are of users, who have no features: nothing is added.
        """

    def learn(self, gradient: Tensor, keep: Tensor | None = None) -> Tensor:
        """Return the gradient (P, F + 1, d) of W, from that of the raw rows (P, m, d) that `add` added to last.

        Afterwards, the gradient of rows where `keep` (m,) is 0 becomes 0, in place: they took no part.
        """


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


class Backend(Protocol):
    """The operations whose speed decides that of training, for tensors of one kind of device."""

    gradients: ClassVar[Mapping[str, Gradient]]
    "Gradients of losses, by the name of their class; `spherec.kernels.fuse` calls them."

    def adam(self, state: AdamState, rates: AdamRates, *, ball: bool) -> AdamRows:
        """Return the rows of a table under dense Adam; in the ball, none is longer than 1."""

    def unit(self, rows: Tensor) -> Tensor:
        """Scale rows (…, D) to length 1 in place, and return them; a row of zeros stays zero."""

    def law(self, tables: LawTables) -> LawDraws:
        """Return draws from a law."""

    def membership(self, own: OwnItems, device: torch.device) -> MembershipMask:
        """Return the mask of who has what."""

    def two_stage(self, law: TwoStageLaw, own: OwnItems, device: torch.device) -> TwoStageDraws:
        """Return draws of two-stage sampling."""

    def keep_rows(self, items: Tensor, steps: Tensor, always: Tensor, seed: int, left_out: int) -> Tensor:
        """Return 1 for items (m,) whose rows take part in this step, 0 for others, by a hash of seed, step and item."""

    def features(self, numbers: Tensor) -> FeatureProducts:
        """Return products with the features of items (I, F + 1)."""

    def next_batch(
        self, pairs: tuple[Tensor, Tensor], order: Tensor, first: Tensor, size: int
    ) -> tuple[Tensor, Tensor]:
        """Return users and items (size,) of the pairs, (E,) each, at places `first` (1,) and after in `order` (E,)."""


Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
