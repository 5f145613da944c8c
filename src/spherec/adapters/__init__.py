"""Our model inside other libraries: one file for each library, which imports it.

`lenskit.CMLScorer` and `rectools.CMLModel` take part in pipelines and comparisons there. `implicit.CMLEstimator` has
the calls of implicit and the parameters of scikit-learn. All are made alike: of a `preset`, `validation` as in
`CML.fit`, and settings of `CML`, as in `CMLScorer(preset="fast", dim=64)`. Parts are dicts: `loss={"gamma": 0.5}`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherec.data.interactions import Interactions
from spherec.recommender import CML
from spherec.recommender.trained_model import Query
from spherec.training import Training
from spherec.training.config import find_preset


def make_config(preset: str | None, settings: Mapping[str, Any]) -> Training:
    """Return the settings of a preset, by default those of `CML`, with changes."""
    return (Training() if preset is None else find_preset(preset)).change(settings)


def fit_matrix(config: Training, matrix: Any, users: Any, items: Any, **about: Any) -> CML:
    """Return a model trained on a matrix of users x items with their ids; `about` are `device` and options of `fit`."""
    pairs = Interactions.from_matrix(matrix > 0, user_ids=users, item_ids=items)  # entries above 0 count alike
    return CML.from_config(config, device=about.pop("device", "auto")).fit(pairs, **about)


def ask_for(model: CML, user: int, own: NDArray[np.integer[Any]]) -> Query | None:
    """Return the query for a user with these items (n,), by dense indices, -1 for what the model does not know.

    Users with the items of their training, or none, are where training put them. Others are placed by their items.
    """
    own = np.unique(own[own >= 0])
    if user >= 0 and (not len(own) or np.array_equal(own, model.data.items_of(user))):
        return Query(user=user)
    return Query(basket=own) if len(own) else None
