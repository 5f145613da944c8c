"""Who is near a point of the space: the one way from vectors to lists, whichever ranker looks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from spherec.ranking import Ranker


@dataclass(frozen=True)
class Neighbours:
    """What is near B points: n rows, point after point, each point's nearest first."""

    point: NDArray[np.int64]
    "(n,) which of the points."
    rank: NDArray[np.int64]
    "(n,) from 1."
    index: NDArray[np.int64]
    "(n,) what is near."
    score: NDArray[np.float32]
    "(n,) 1 − d²/2."


def nearest(
    ranker: Ranker, points: Tensor, k: int, *, without: Sequence[NDArray[np.integer[Any]]] | None = None
) -> Neighbours:
    """The k that the ranker finds nearest to each of the points (B, D), those in a point's list left out.

    A point has fewer than k neighbours only where no more are left.
    """
    ranking = ranker.top_of(points.numpy(), k, without=without)
    point, place = np.nonzero(ranking.items >= 0)  # (n,)
    score = ranking.scores[point, place]
    if ranker.vectors.constraint == "ball":  # u·v − |v|²/2 is 1 − d²/2, less 1 − |u|²/2
        score = score + (1 - points.square().sum(1) / 2).numpy()[point]
    return Neighbours(point, place + 1, ranking.items[point, place], score)
