"""The rank weight of the original CML: a pair whose item seems to rank low counts more.

    w_ij = log(1 + I · M / N)        M of the N negatives lie inside the margin: d²(u, v_j) − d²(u, v_k) + margin > 0

I · M / N estimates how many items of the whole catalogue are too near, which is the rank of the positive.
Hsieh et al., Collaborative Metric Learning (WWW 2017), section 3.2.
"""

import torch
from torch import Tensor

from spherec.losses.triplets import Triplets


def rank_weight(triplets: Triplets, margin: float) -> Tensor:
    """The weight of each pair (B,), a constant to the gradient; 0 where no negative lies inside the margin."""
    with torch.no_grad():
        inside = (triplets.positive[:, None] - triplets.negative + margin > 0) & triplets.valid  # (B, N)
        share = inside.sum(1) / triplets.valid.sum(1).clamp_min(1)  # (B,)
        return torch.log1p(triplets.n_items * share)
