"""A few draws without replacement from many laws at once, by the inverse of their distribution functions."""

import torch
from torch import Tensor


def draw_distinct(log_weights: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """From each row of log weights (B, C), n places drawn one after the other without replacement, by uniform (B, n).

    Places (B, n), and beside them whether there was a weight above 0 left to draw; where there was none, the place
    means nothing.
    """
    highest = log_weights.amax(1, keepdim=True).clamp_min_(torch.finfo(log_weights.dtype).min)  # (B, 1)
    weights = (log_weights - highest).exp_()  # (B, C) the largest is 1, or all are 0
    places, valid = [], []
    for draw in range(uniform.shape[1]):
        sums = weights.cumsum(1)  # (B, C)
        total = sums[:, -1:].contiguous()  # (B, 1)
        # Below the total, also where rounding says otherwise; the first sum above it belongs to a weight above 0.
        wanted = torch.minimum(uniform[:, draw : draw + 1] * total, total.nextafter(torch.zeros_like(total)))
        place = torch.searchsorted(sums, wanted, right=True).clamp_max_(weights.shape[1] - 1)  # (B, 1)
        places.append(place)
        valid.append(total > 0)
        weights.scatter_(1, place, 0.0)
    return torch.cat(places, 1), torch.cat(valid, 1)
