"""Softmin: every negative pushes, the nearer the harder; γ is the dial of popularity.

    log(1 + Σ_k exp((s_ik − s_ij) / τ − γ · log(q_k · I)))        s = −d²/2, on the sphere the dot product less 1

q_k is the probability with which item k was drawn, I the number of items. γ = 1 undoes the bias of sampling: items that
are drawn often count less. With negatives drawn by popularity, a smaller γ leaves popular items pushed away.

By default τ comes from the data: 1/τ = (log(U · I / E) − log 2) / 0.65, with E pairs. Chen et al., Adap-τ (WWW 2023),
have the mean score of positives less that of all pairs where 0.65 stands; it is near that at the end of all our runs.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from spherec.data.interactions import Interactions
from spherec.device import product
from spherec.errors import check_number
from spherec.geometry import SHORTEST
from spherec.kernels import Backend
from spherec.losses.loss import FusedGradient, GradientTask, Loss, Triplets

_GAP = 0.65  # mean score of positives less that of all pairs, at the end of a run
_WITHOUT_DATA = 0.1  # temperature
_HIGHEST = 1.0  # temperature, for data so dense that half of all pairs are there


@dataclass(frozen=True)
class Softmin(Loss):
    """A soft minimum over all negatives instead of the hinge on the nearest."""

    temperature: float | None = None
    "τ; the smaller, the more the nearest negatives count. By default it comes from the data."
    gamma: float = 1.0
    """Share of the sampling bias that is undone: 1 all of it, 0 nothing. It acts with the sampler Popularity; Uniform
    has no bias, and the others draw by a law that has no closed form, so their negatives count alike."""

    def __post_init__(self) -> None:
        if self.temperature is not None:
            check_number("temperature", self.temperature, 1e-6, 1e6, "0.1")
        check_number("gamma", self.gamma, -100, 100, "0 to 1")

    def __call__(self, triplets: Triplets) -> Tensor:
        """Return the loss of each pair (B,)."""
        return softmin(triplets, self.fold_in_temperature, self.gamma)

    def active(self, triplets: Triplets) -> Tensor:
        """Tell which pairs (B,) have a negative nearer than the positive."""
        return triplets.nearest() < triplets.positive

    def fused_gradient(self, task: GradientTask, kernels: Backend) -> FusedGradient | None:
        """Return a few passes over one table of pairs and negatives, if a batch shares its negatives on the sphere."""
        del kernels
        if not task.shared or task.constraint != "sphere":
            return None
        return partial(
            shared_softmin_gradient,
            temperature=self.fold_in_temperature,
            gamma=self.gamma,
            n_items=task.n_items,
        )

    def resolve(self, data: Interactions) -> "Softmin":
        """Return the loss with a temperature."""
        return self if self.temperature is not None else replace(self, temperature=temperature_for(data))

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
        """τ of training; 0.1 before there is data to take it from."""
        return _WITHOUT_DATA if self.temperature is None else self.temperature

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
        """Recommend the temperature that comes from the data if this one is far lower."""
        likely = temperature_for(data)
        if self.temperature is None or self.temperature >= 0.7 * likely:
            return []
        return [f"a temperature near {likely:g} is likely better on this data; leave loss.temperature out to get it"]


def temperature_for(data: Interactions) -> float:
    """Return τ for this data: the denser it is, the higher."""
    users, items = np.count_nonzero(data.items_per_user), np.count_nonzero(data.users_per_item)
    depth = math.log(max(users * items / max(len(data), 1), 1.0)) - math.log(2)
    return round(min(_GAP / depth, _HIGHEST) if depth > 0 else _HIGHEST, 3)


def softmin(triplets: Triplets, temperature: float, gamma: float) -> Tensor:
    """Return the softmin of each pair (B,); 0 where a pair has no negative."""
    exponent = (triplets.positive[:, None] - triplets.negative) / (2 * temperature)  # (B, N)
    if triplets.log_q is not None:
        exponent = exponent - gamma * (triplets.log_q + math.log(triplets.n_items))
    exponent = exponent.masked_fill(~triplets.valid, float("-inf"))
    zero = torch.zeros_like(triplets.positive)[:, None]  # (B, 1) the 1 in the logarithm
    return torch.cat((zero, exponent), dim=1).logsumexp(1)


def shared_softmin_gradient(
    rows: Tensor,  # (2 B + N, D) of B users, B positives, N negatives; with reach (2 B + N, D + 1)
    valid: Tensor,  # (B, N)
    log_q: Tensor | None,  # (1, N)
    weights: Tensor | None,  # (B,) of pairs
    dial: Tensor | None = None,  # (B,) λ of pairs; None without reach
    *,
    temperature: float,
    gamma: float,
    n_items: int,
) -> tuple[Tensor, Tensor]:
    """Return the gradient of softmin over a pool of negatives that a batch shares, on the sphere, and three sums.

    The gradient is shaped as the rows. The sums (3,) are the loss, the active pairs and the masked places. Autograd has
    the same in three times as many passes over all pairs with all negatives. Here one table (B, N) is made and changed
    in place: similarities, their exponents, and at last the forces by which each pair pulls and pushes,

        ∂/∂s_ik = p_ik / τ        ∂/∂s_ij = −Σ_k p_ik / τ        p_ik = e_ik / (1 + Σ_k e_ik)

    where e_ik is the exponential in the loss. With reach, s/τ + λ_i b stands for s/τ, and λ_i γ for γ.
    """
    n = len(valid)
    if dial is not None:
        rows, reach = rows[:, :-1], rows[:, -1:]  # (2 B + N, D), (2 B + N, 1)
        dial = dial[:, None]  # (B, 1)
    length = rows.norm(dim=1, keepdim=True).clamp_min_(SHORTEST)  # (2 B + N, 1)
    vectors = rows / length
    users, positives, negatives = vectors[:n], vectors[n : 2 * n], vectors[2 * n :]
    near = (users * positives).sum(1, keepdim=True)  # (B, 1)
    table = product(users, negatives.T)  # (B, N) s
    if dial is not None:
        near.add_(dial * reach[n : 2 * n], alpha=temperature)
        table.addr_(dial[:, 0], reach[2 * n :, 0], alpha=temperature)
    table.masked_fill_(~valid, -torch.inf)
    active = table.amax(1, keepdim=True) > near  # (B, 1)
    table.sub_(near).div_(temperature)
    if log_q is not None:
        bias = gamma * (log_q + math.log(n_items))  # (1, N)
        table.sub_(bias if dial is None else dial * bias)
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
    if dial is not None:
        push = torch.cat((torch.zeros_like(pull), -pull * dial, table.T @ dial)).mul_(temperature)  # (2 B + N, 1)
        gradient = torch.cat((gradient, push), dim=1)
    return gradient, torch.stack([one.sum().double() for one in (loss, active, ~valid)])
