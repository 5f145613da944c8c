"""The covariance penalty of the original CML: the dimensions of the space should say different things.

    L_c = (‖Cov‖_F² − ‖diag Cov‖²) / n        Cov = (1/n) Σ (x − μ)(x − μ)ᵀ, D × D, over n vectors x with mean μ

Hsieh et al., Collaborative Metric Learning (WWW 2017), section 3.4.
"""

from torch import Tensor


def covariance(vectors: Tensor) -> Tensor:
    """The penalty of vectors (n, D), users and positive items of a batch: 0 where the dimensions are uncorrelated."""
    n = vectors.shape[0]
    centred = vectors - vectors.mean(0)  # (n, D)
    cov = centred.T @ centred / n  # (D, D)
    return (cov.square().sum() - cov.diagonal().square().sum()) / n
