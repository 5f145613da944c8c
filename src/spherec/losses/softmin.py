"""Softmin: every negative pushes, the nearer the harder; γ is the dial of popularity.

    log(1 + Σ_k exp((s_ik − s_ij) / τ − γ · log(q_k · I)))        s = −d²/2, on the sphere the dot product less 1

q_k is the probability with which item k was drawn, I the number of items. γ = 1 undoes the bias of sampling: items that
are drawn often count less. With negatives drawn by popularity, a smaller γ leaves popular items pushed away.
"""

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.device import product
from spherec.errors import check_number
from spherec.geometry import SHORTEST
from spherec.kernels import Backend
from spherec.losses.loss import FusedGradient, GradientTask, Loss, Triplets


@dataclass(frozen=True)
class Softmin(Loss):
    """A soft minimum over all negatives instead of the hinge on the nearest."""

    temperature: float = 0.1
    "τ; the smaller, the more the nearest negatives count."
    gamma: float = 1.0
    """Share of the sampling bias that is undone: 1 all of it, 0 nothing. It acts with the sampler Popularity; Uniform
    has no bias, and the others draw by a law that has no closed form, so their negatives count alike."""

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature, 1e-6, 1e6, "0.1")
        check_number("gamma", self.gamma, -100, 100, "0 to 1")

    def __call__(self, triplets: Triplets) -> Tensor:
        """Return the loss of each pair (B,)."""
        return softmin(triplets, self.temperature, self.gamma)

    def active(self, triplets: Triplets) -> Tensor:
        """Tell which pairs (B,) have a negative nearer than the positive."""
        return triplets.nearest() < triplets.positive

    def fused_gradient(self, task: GradientTask, kernels: Backend) -> FusedGradient | None:
        """Return a few passes over one table of pairs and negatives, if a batch shares its negatives on the sphere."""
        del kernels
        if not task.shared or task.constraint != "sphere":
            return None
        return partial(shared_softmin_gradient, temperature=self.temperature, gamma=self.gamma, n_items=task.n_items)

    @property
    def default_epochs(self) -> int:
        """Fewer than for the hinge, because each pair pushes many negatives at once."""
        return 30

    @property
    def default_steps(self) -> int:
        """Fewer than for the hinge."""
        return 3_000

    @property
    def fold_in_temperature(self) -> float:
        """τ of training."""
        return self.temperature

    @property
    def bias_correction(self) -> float | None:
        """γ."""
        return self.gamma

    def search_space(self) -> dict[str, str]:
        """Return the temperature. γ is left out: it decides how popular lists are, which is a matter of taste."""
        return {"temperature": "0.03..1.0:log"}

    @property
    def not_searched(self) -> tuple[str, ...]:
        """β of the pool's law, which like γ decides how popular lists are."""
        return ("beta",)

    def advice(self, data: Interactions) -> list[str]:
        """Recommend a higher temperature for a small catalogue."""
        likely = likely_temperature(data.n_items)
        if self.temperature >= 0.8 * likely:
            return []
        return [
            f"with {data.n_items:,} items a higher temperature is likely better: "
            f"loss={{'temperature': {likely:g}}} (--set loss.temperature={likely:g}), or let spherec tune find one"
        ]


def likely_temperature(n_items: int) -> float:
    """Return a τ near the best for a catalogue of this size; smaller ones need a higher τ. See docs/beyond.md."""
    return round(0.09 * math.pow(max(1.0, 10_000 / max(n_items, 1)), 0.3), 2)


def softmin(triplets: Triplets, temperature: float, gamma: float) -> Tensor:
    """Return the softmin of each pair (B,); 0 where a pair has no negative."""
    exponent = (triplets.positive[:, None] - triplets.negative) / (2 * temperature)  # (B, N)
    if triplets.log_q is not None:
        exponent = exponent - gamma * (triplets.log_q + math.log(triplets.n_items))
    exponent = exponent.masked_fill(~triplets.valid, float("-inf"))
    zero = torch.zeros_like(triplets.positive)[:, None]  # (B, 1) the 1 in the logarithm
    return torch.cat((zero, exponent), dim=1).logsumexp(1)


def shared_softmin_gradient(
    rows: Tensor,  # (2 B + N, D) of B users, B positives, N negatives
    valid: Tensor,  # (B, N)
    log_q: Tensor | None,  # (1, N)
    weights: Tensor | None,  # (B,) of pairs
    *,
    temperature: float,
    gamma: float,
    n_items: int,
) -> tuple[Tensor, Tensor]:
    """Return the gradient of softmin over a pool of negatives that a batch shares, on the sphere, and three sums.

    The gradient is (2 B + N, D). The sums (3,) are the loss, the active pairs and the masked places. Autograd does the
    same in three times as many passes over all pairs with all negatives. Here one table (B, N) is made and changed in
    place: similarities, their exponents, and at last the forces by which each pair pulls and pushes,

        ∂/∂s_ik = p_ik / τ        ∂/∂s_ij = −Σ_k p_ik / τ        p_ik = e_ik / (1 + Σ_k e_ik)

    where e_ik is the exponential in the loss.
    """
    n = len(valid)
    length = rows.norm(dim=1, keepdim=True).clamp_min_(SHORTEST)  # (2 B + N, 1)
    vectors = rows / length
    users, positives, negatives = vectors[:n], vectors[n : 2 * n], vectors[2 * n :]
    near = (users * positives).sum(1, keepdim=True)  # (B, 1)
    table = product(users, negatives.T)  # (B, N) s
    table.masked_fill_(~valid, -torch.inf)
    active = table.amax(1, keepdim=True) > near  # (B, 1)
    table.sub_(near).div_(temperature)
    if log_q is not None:
        table.sub_(gamma * (log_q + math.log(n_items)))
    highest = table.amax(1, keepdim=True).clamp_min_(0)  # (B, 1) the 1 in the logarithm has the exponent 0
    table.sub_(highest).exp_()
    total = table.sum(1, keepdim=True) + (-highest).exp()  # (B, 1)
    weight = torch.ones_like(total) if weights is None else weights[:, None]  # (B, 1)
    loss = weight * (highest + total.log())  # (B, 1)
    table.mul_(weight / (temperature * total))  # ∂/∂s_ik
    pull = table.sum(1, keepdim=True)  # (B, 1)
    gradient = torch.cat(
        (product(table, negatives) - pull * positives, -pull * users, product(table.T, users))
    )  # of vectors
    gradient.sub_((gradient * vectors).sum(1, keepdim=True) * vectors).div_(length)  # of rows
    return gradient, torch.stack([one.sum().double() for one in (loss, active, ~valid)])
