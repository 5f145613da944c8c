"""A model for RecTools: `CMLModel(preset="fast").fit(dataset)`, wherever RecTools takes a model.

RecTools needs NumPy 1 on Python 3.11 and 3.12, and spherec NumPy 2: both run on Python 3.13. Weights are not read.
Users with the items of their training are where training put them, others where their items in the data set do.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict
from rectools.dataset import Dataset
from rectools.models.base import ModelBase, ModelConfig

from spherec.adapters import ask_for, fit_matrix, make_config
from spherec.recommender import CML
from spherec.recommender.trained_model import Query

Triplet = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]  # targets, items and scores (n,)


class CMLModelConfig(ModelConfig):  # type: ignore[misc]
    """What a `CMLModel` is made of. All other fields are settings of `spherec.CML`."""

    model_config = ConfigDict(extra="allow")
    preset: str | None = None
    validation: float | None = None


class CMLModel(ModelBase[CMLModelConfig]):  # type: ignore[misc]
    """Collaborative metric learning for hot users and items. With `verbose` above 0, training shows its progress."""

    config_class = CMLModelConfig
    model: CML

    def __init__(
        self, preset: str | None = None, validation: float | None = None, verbose: int = 0, **settings: Any
    ) -> None:
        super().__init__(verbose=verbose)
        self.preset, self.validation, self.settings = preset, validation, settings
        make_config(preset, settings)  # a setting that does not exist is an error now

    def _get_config(self) -> CMLModelConfig:
        own = {"preset": self.preset, "validation": self.validation, "verbose": self.verbose}
        return CMLModelConfig(cls=type(self), **own, **self.settings)

    @classmethod
    def _from_config(cls, config: CMLModelConfig) -> Self:
        return cls(config.preset, config.validation, config.verbose, **(config.model_extra or {}))

    def _fit(self, dataset: Dataset) -> None:
        matrix = dataset.get_user_item_matrix(include_weights=False)
        maps = zip((dataset.user_id_map, dataset.item_id_map), matrix.shape, strict=True)
        about = {"validation": self.validation, "progress": self.verbose > 0}
        ids = (ids.external_ids[:n] for ids, n in maps)
        self.model = fit_matrix(make_config(self.preset, self.settings), matrix, *ids, **about)

    def _recommend_u2i(self, user_ids: Any, dataset: Dataset, k: int, filter_viewed: bool, allowed: Any) -> Triplet:
        rows = dataset.get_user_item_matrix(include_weights=False)[user_ids]  # (B, I)
        users = self.model.data.user_ids.find(dataset.user_id_map.external_ids[user_ids])  # (B,)
        items = self.model.data.item_ids.find(dataset.item_id_map.external_ids)  # (I,)
        own = np.split(items[rows.indices], rows.indptr[1:-1])
        found = zip(user_ids, map(ask_for, [self.model] * len(users), users.tolist(), own), strict=True)
        queries = [(user, query._replace(exclude_seen=filter_viewed)) for user, query in found if query is not None]
        return self._rank(queries, items, k, allowed)

    def _recommend_i2i(self, target_ids: Any, dataset: Dataset, k: int, allowed: Any) -> Triplet:
        items = self.model.data.item_ids.find(dataset.item_id_map.external_ids)  # (I,)
        return self._rank([(one, Query(item=items[one])) for one in target_ids if items[one] >= 0], items, k, allowed)

    def _rank(self, queries: list[tuple[int, Query]], items: Any, k: int, allowed: Any) -> Triplet:
        """Return the lists of targets. `items` (I,) has our indices of RecTools' items, -1 for new ones."""
        theirs = np.full(self.model.data.n_items, -1, dtype=np.int64)
        theirs[items[items >= 0]] = np.flatnonzero(items >= 0)
        listed = theirs >= 0 if allowed is None else np.isin(theirs, allowed)
        only = None if listed.all() else np.flatnonzero(listed)
        ranking = self.model.rank([query._replace(k=k, only=only) for _, query in queries])
        row, place = np.nonzero(ranking.items >= 0)  # (n,)
        targets = np.array([target for target, _ in queries], dtype=np.int64)
        return targets[row], theirs[ranking.items[row, place]], ranking.scores[row, place]
