"""Global orthogonal regularisation (equation 3 of the paper): positives and negatives spread like random directions.

    L_GOR = (mean s)² + [mean s² − 1/D]₊        s = v_j · v_k over all pairs of a positive and one of its negatives

Two independent directions in D dimensions have E[s] = 0 and E[s²] = 1/D. Zhang et al., Learning Spread-out Local
Feature Descriptors (ICCV 2017).
"""

from torch import Tensor

from spherec.geometry import dots


def spread_out(positives: Tensor, negatives: Tensor, valid: Tensor) -> Tensor:
    """The penalty of positives (B, D) with negatives (B | 1, N, D) where valid (B, N): one number."""
    similarity = dots(positives, negatives).masked_fill(~valid, 0.0)  # (B, N)
    count = valid.sum().clamp_min(1)
    mean, mean_square = similarity.sum() / count, similarity.square().sum() / count
    return mean.square() + (mean_square - 1 / positives.shape[1]).clamp_min(0.0)
