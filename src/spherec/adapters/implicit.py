"""A model with the calls of implicit: matrices and positions in, arrays out. It needs no package.

Lists have shape (N,) for one user or item and (B, N) for several, with -1 where nothing is left. Parameters are read
and set as those of scikit-learn's estimators, so that `GridSearchCV` and its like search them.
"""

from dataclasses import replace
from typing import Any, Self, TypedDict, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.adapters import fit_matrix, make_config
from spherec.data import splits
from spherec.data.interactions import Interactions
from spherec.errors import refuse_unknown
from spherec.evaluation import evaluate
from spherec.recommender import CML
from spherec.recommender.trained_model import Query

ItemArrays = tuple[NDArray[np.int32], NDArray[np.float32]]
"""Items and scores, (N,) or (B, N)."""


class RecommendOptions(TypedDict, total=False):
    """The options of `CMLEstimator.recommend`, those of implicit."""

    filter_already_liked_items: bool  # leave out the items in `user_items`; by default True
    filter_items: Any  # nobody gets these
    items: Any  # the only ones that may be listed
    recalculate_user: bool  # place users by `user_items`; by default only those who were not in training are


class CMLEstimator:
    """Collaborative metric learning by positions, of a preset and settings of `CML`."""

    model: CML

    def __init__(self, *, preset: str | None = None, validation: float | None = None, **settings: Any) -> None:
        self.preset, self.validation, self.settings = preset, validation, settings
        make_config(preset, settings)  # a setting that does not exist is an error now

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return the parameters, as they were given."""
        return {"preset": self.preset, "validation": self.validation, **self.settings}

    def set_params(self, **params: Any) -> Self:
        """Change parameters."""
        CMLEstimator.__init__(self, **(self.get_params() | params))
        return self

    def fit(self, user_items: Any, y: Any = None, *, show_progress: bool = False) -> Self:  # noqa: ARG002
        """Train on a matrix of users x items, of which all entries above 0 count alike."""
        about, ids = {"validation": self.validation, "progress": show_progress}, map(range, user_items.shape)
        self.model = fit_matrix(make_config(self.preset, self.settings), user_items, *ids, **about)
        return self

    def recommend(self, userid: Any, user_items: Any, N: int = 10, **options: Unpack[RecommendOptions]) -> ItemArrays:  # noqa: N803
        """Return items and scores: the N nearest items of users, whose own items are the rows of `user_items`."""
        refuse_unknown("recommend", options, RecommendOptions)
        rows, only, closed = Interactions.from_matrix(user_items > 0), options.get("items"), options.get("filter_items")
        anew, seen = options.get("recalculate_user", False), options.get("filter_already_liked_items", True)
        queries = []
        for row, user in enumerate(np.atleast_1d(userid).tolist()):
            own = rows.items_of(row)
            left_out = np.union1d(() if closed is None else closed, own if seen else ()).astype(np.int64)
            is_known = not anew and user < self.model.data.n_users
            who = Query(user=user) if is_known else Query(basket=own)
            queries.append(who._replace(k=N, only=only, exclude=left_out, exclude_seen=False))
        ranking, which = self.model.rank(queries), slice(None) if np.ndim(userid) else 0
        return ranking.items[which].astype(np.int32), ranking.scores[which]

    def similar_items(self, itemid: Any, N: int = 10) -> ItemArrays:  # noqa: N803
        """Return items and scores: the N nearest items of each item, the first of which is itself."""
        items, which = np.atleast_1d(itemid), slice(None) if np.ndim(itemid) else 0
        found = self.model.rank([Query(item=item, k=max(N - 1, 1)) for item in items.tolist()])
        scores = np.column_stack([np.ones(len(items), dtype=np.float32), found.scores])
        return np.column_stack([items, found.items])[which, ..., :N].astype(np.int32), scores[which, ..., :N]

    def score(self, user_items: Any, y: Any = None) -> float:  # noqa: ARG002
        """Return the NDCG@10 of any users: a fifth of each one's items is hidden, the others place them."""
        fold, vectors = splits.ratio(Interactions.from_matrix(user_items > 0)), self.model.vectors
        users = np.zeros((fold.train.n_users, vectors.dim), dtype=np.float32)
        for user in np.flatnonzero(fold.train.items_per_user).tolist():
            users[user] = self.model.place(fold.train.items_of(user))
        placed = replace(vectors, user_table=torch.from_numpy(users))
        return evaluate(placed, fold.train, fold.test, k=10, metrics="ndcg")["ndcg"]

    @property
    def user_factors(self) -> NDArray[np.float32]:
        """Vectors of users (U, D)."""
        return np.asarray(self.model.vectors.user_table)

    @property
    def item_factors(self) -> NDArray[np.float32]:
        """Vectors of items (I, D)."""
        return np.asarray(self.model.vectors.item_table)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags  # which asks for them

        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=InputTags(sparse=True))
