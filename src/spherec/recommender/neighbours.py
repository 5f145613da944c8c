"""Who is near a point of the space: the one way from vectors to lists, by the ranker that evaluation uses."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from spherec.data.ids import IdMap
from spherec.data.interactions import Interactions
from spherec.geometry import Constraint, Vectors
from spherec.ranking import ExactRanker


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
    points: Tensor,
    table: Tensor,
    ids: IdMap,
    constraint: Constraint,
    k: int,
    *,
    without: Sequence[NDArray[np.int32]] | None = None,
    listed: NDArray[np.bool_] | None = None,
) -> Neighbours:
    """The k of the `table` (n, D) with these ids that are nearest to each of the points (B, D).

    Left out are those in `without`, ascending for each point, and those for which `listed` (n,) is false. A point has
    fewer than k neighbours only where no more are left.
    """
    ranker = ExactRanker(Vectors(points, table, constraint), listed=listed)
    closed = None if without is None else _as_interactions(without, ids)
    ranking = ranker.top(np.arange(len(points)), k, without=closed)
    point, place = np.nonzero(ranking.items >= 0)  # (n,)
    score = ranking.scores[point, place]
    if constraint == "ball":  # u·v − |v|²/2 is 1 − d²/2, less 1 − |u|²/2
        score = score + (1 - points.square().sum(1) / 2).numpy()[point]
    return Neighbours(point, place + 1, ranking.items[point, place], score)


def _as_interactions(rows: Sequence[NDArray[np.int32]], ids: IdMap) -> Interactions:
    """Rows of indices as the ranker takes them."""
    starts = np.concatenate(([0], np.cumsum([len(row) for row in rows], dtype=np.int64)))
    indices = np.concatenate([*rows, np.empty(0)]).astype(np.int32)
    return Interactions(starts, indices, IdMap(np.arange(len(rows))), ids)
