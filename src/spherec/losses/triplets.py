"""What a loss looks at: how far each user is from the positive item and from the negative ones."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Triplets:
    """Squared distances of a batch of B pairs with N negatives each."""

    positive: Tensor
    "(B,) to the positive item."
    negative: Tensor
    "(B, N) to the negative items."
    valid: Tensor
    "(B, N) whether there is a negative in this place at all."
    n_items: int
    "I, items in the catalogue."
    log_q: Tensor | None = None
    "(B | 1, N) log of the probability with which each negative was drawn; None where it has no closed form."

    def nearest(self) -> Tensor:
        """(B,) the squared distance to the nearest negative, infinite where there is none."""
        return self.negative.masked_fill(~self.valid, float("inf")).amin(1)
