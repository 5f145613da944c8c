"""A scorer for LensKit's pipelines: `topn_pipeline(CMLScorer(preset="fast"))`.

Users with the items of their training are where training put them, others where the items of the query do.
"""

from typing import Any

import numpy as np
from lenskit.data import Dataset, ItemList, QueryInput, RecQuery, Vocabulary
from lenskit.pipeline import Component
from lenskit.training import Trainable, TrainingOptions
from numpy.typing import NDArray
from pydantic import BaseModel, model_validator

from spherec.adapters import ask_for, fit_matrix, make_config
from spherec.errors import TrainingError
from spherec.recommender import CML


class CMLConfig(BaseModel, extra="allow"):
    """What a `CMLScorer` is made of. All other fields are settings of `spherec.CML`."""

    preset: str | None = None
    validation: float | None = None

    @model_validator(mode="after")
    def _check(self) -> "CMLConfig":
        make_config(self.preset, self.model_extra or {})
        return self


class CMLScorer(Component[ItemList], Trainable):  # type: ignore[misc]
    """Scores items for a user by collaborative metric learning: 1 − d²/2, and reach."""

    config: CMLConfig
    users: Vocabulary  # those of the training, whose numbers are indices of the model
    items: Vocabulary
    model: CML | None = None

    def is_trained(self) -> bool:
        return self.model is not None

    def train(self, data: Dataset, options: TrainingOptions = TrainingOptions()) -> None:  # noqa: B008
        """Train on the interactions of a data set; a seed of LensKit stands in for the setting `seed`."""
        if self.is_trained() and not options.retrain:
            return
        settings: dict[str, Any] = dict(self.config.model_extra or {})
        if options.rng is not None:
            settings["seed"] = int(options.random_generator().integers(2**31))
        matrix, ids = data.interaction_matrix(format="scipy", layout="csr"), (data.users.ids(), data.items.ids())
        about = {"device": options.device or "auto", "validation": self.config.validation, "progress": False}
        self.model = fit_matrix(make_config(self.config.preset, settings), matrix, *ids, **about)
        self.users, self.items = data.users, data.items

    def __call__(self, query: QueryInput, items: ItemList) -> ItemList:
        """Return the items with scores, NaN for what cannot be scored."""
        if self.model is None:
            raise TrainingError("the scorer is not trained yet; train its pipeline")
        asked, scores = RecQuery.create(query), np.full(len(items), np.nan, dtype=np.float32)
        user = None if asked.user_id is None else self.users.number(asked.user_id, missing=None)
        found = ask_for(self.model, -1 if user is None else user, self._number(asked.query_items))
        index = self._number(items)
        known = np.unique(index[index >= 0])
        if found is not None and len(known):
            ranking = self.model.rank([found._replace(k=len(known), only=known, exclude_seen=False)])
            each = np.empty(len(self.items), dtype=np.float32)  # (I,)
            each[ranking.items[0]] = ranking.scores[0]
            scores[index >= 0] = each[index[index >= 0]]
        return ItemList(items, scores=scores)

    def _number(self, items: ItemList | None) -> NDArray[np.int64]:
        """Return the indices (n,) of items, -1 for unknown ones."""
        if items is None or not len(items):
            return np.zeros(0, dtype=np.int64)
        return np.asarray(items.numbers(vocabulary=self.items, missing="negative"), dtype=np.int64)
