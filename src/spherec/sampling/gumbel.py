"""Draws without replacement from many laws at once, by Gumbel noise."""

import torch
from torch import Tensor

_LEAST = 1e-38  # a uniform draw of 0 has no logarithm


def distinct(log_weights: Tensor, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """From each row of log weights (…, C), n places drawn one after the other without replacement (…, n).

    They are the n largest of log w + Gumbel noise. Beside them (…, n): whether there was a weight above 0 left to draw.
    """
    noise = torch.empty_like(log_weights).uniform_(generator=generator).clamp_min_(_LEAST)
    noise = noise.log_().neg_().log_()  # minus a Gumbel variable
    keys, places = (log_weights - noise).topk(n, dim=-1)
    return places, keys > float("-inf")
