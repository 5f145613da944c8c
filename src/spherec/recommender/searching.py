"""Which ranker looks for a model's items: one that looks at all of them, or the index that the model was given."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from spherec.geometry import DenseVectors
from spherec.ranking import ExactRanker
from spherec.recommender.neighbours import Neighbours, nearest

if TYPE_CHECKING:
    from spherec.ranking.usearch import UsearchRanker  # an extra

Indices = NDArray[np.integer[Any]]


class ItemSearch:
    """Finds the items near points, through the `index` if there is one."""

    def __init__(self, vectors: DenseVectors, index: "UsearchRanker | None" = None) -> None:
        self.index = index
        self._vectors = vectors
        self._exact = ExactRanker(vectors)

    def nearest(
        self,
        points: Tensor,
        k: int,
        *,
        without: Sequence[Indices] | None = None,
        only: Indices | None = None,
        exclude: Indices | None = None,
    ) -> Neighbours:
        """The k items nearest to each of the points (B, D), those in a point's list of indices left out.

        All but `only` and those in `exclude` are left out for every point. An index cannot keep to `only` and does not
        get past a long `exclude`: then all items are looked at.
        """
        if only is None and exclude is None:
            return nearest(self.index or self._exact, points, k, without=without)
        if only is None and exclude is not None and self.index is not None and self.index.searches(k, len(exclude)):
            lists = [exclude] * len(points) if without is None else [np.union1d(own, exclude) for own in without]
            return nearest(self.index, points, k, without=lists)
        listed = np.full(len(self._vectors.item_table), only is None)
        if only is not None:
            listed[only] = True
        if exclude is not None:
            listed[exclude] = False
        return nearest(ExactRanker(self._vectors, listed=listed), points, k, without=without)
