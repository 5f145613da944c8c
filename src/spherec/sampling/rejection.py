"""Stage two of two-stage sampling on a CPU without a look at every candidate, as `spherec.kernels.rejection` has it."""

import math

import torch
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.kernels.rejection import bounds, draw_by_rejection
from spherec.sampling.candidates import Candidates

_NEAR = 0.5  # the share of candidates with s >= 0, about


class Rejection:
    """Draws by the weights (1 − min(s, cap)²)^exponent, s >= 0, without replacement, passing over users' own items."""

    def __init__(self, train: Interactions, exponent: float, cap: float) -> None:
        self._rows = train.indptr, train.indices
        self._law = exponent, cap, *bounds(exponent, cap)

    def pays(self, candidates: Candidates, n: int) -> bool:
        """Whether n places take fewer looks at candidates than there are."""
        _, _, _, log_most = self._law
        count = len(candidates.items)
        return log_most < math.log(count) and n * math.exp(log_most) * _most(candidates) < count * _NEAR

    def draw(
        self,
        users: Tensor,  # (B,)
        ones: Tensor,  # (B, D) directions of the positives, of length 1
        candidates: Candidates,
        others: Tensor,  # (C, D)
        n: int,
        generator: torch.Generator,
        *,
        tries: int | None = None,  # in a row, for one place; if nothing is said, as many as there are candidates
    ) -> tuple[Tensor, Tensor]:
        """Places among the candidates (B, n), and how many of the n were found (B,); the others need another way."""
        places = torch.zeros(len(users), n, dtype=torch.int64)
        found = torch.empty(len(users), dtype=torch.int64)
        seed = int(torch.empty((), dtype=torch.int64).random_(generator=generator))
        times = candidates.multiplicity.numpy(), _most(candidates)
        draw_by_rejection(
            ones.numpy(),
            others.numpy(),
            times,
            self._law,
            users.numpy(),
            candidates.items.numpy(),
            self._rows,
            seed,
            len(candidates.items) if tries is None else tries,
            places.numpy(),
            found.numpy(),
        )
        return places, found


def _most(candidates: Candidates) -> float:
    """How often the most frequent was drawn."""
    return float(candidates.multiplicity.numpy().max())
