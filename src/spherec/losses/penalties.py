"""Penalties on the vectors of a batch, each one number that is added to its losses."""

from torch import Tensor

from spherec.geometry import dots


def covariance(vectors: Tensor) -> Tensor:
    """Return the covariance penalty of the original CML: the dimensions of the space should say different things.

        L_c = (‖Cov‖_F² − ‖diag Cov‖²) / n        Cov = (1/n) Σ (x − μ)(x − μ)ᵀ, D × D, over n vectors x with mean μ

    `vectors` (n, D) are the users and positive items of a batch. It is 0 where the dimensions are uncorrelated.
    Hsieh et al., Collaborative Metric Learning (WWW 2017), section 3.4.
    """
    n = vectors.shape[0]
    centred = vectors - vectors.mean(0)  # (n, D)
    cov = centred.T @ centred / n  # (D, D)
    return (cov.square().sum() - cov.diagonal().square().sum()) / n


def spread_out(positives: Tensor, negatives: Tensor, valid: Tensor) -> Tensor:
    """Return the global orthogonal regularisation (equation 3 of the paper).

        L_GOR = (mean s)² + [mean s² − 1/D]₊        s = v_j · v_k over all pairs of a positive and one of its negatives

    Positives are (B, D), negatives (B | 1, N, D) where valid (B, N). Two independent directions in D dimensions have
    E[s] = 0 and E[s²] = 1/D, so the penalty asks positives and negatives to spread like random directions.
    Zhang et al., Learning Spread-out Local Feature Descriptors (ICCV 2017).
    """
    similarity = dots(positives, negatives).masked_fill(~valid, 0.0)  # (B, N)
    count = valid.sum().clamp_min(1)
    mean, mean_square = similarity.sum() / count, similarity.square().sum() / count
    return mean.square() + (mean_square - 1 / positives.shape[1]).clamp_min(0.0)
