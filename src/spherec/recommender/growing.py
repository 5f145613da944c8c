"""A model that has learned, and interactions that are new to it: both under one set of indices."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec import rng
from spherec.artifact import Artifact
from spherec.data.events import pair_keys
from spherec.data.ids import IdMap, refuse_twins
from spherec.data.interactions import Interactions, merge_item_names, row_starts
from spherec.errors import ArgumentError, DataError
from spherec.evaluation import Validation
from spherec.geometry import DenseVectors, project, unit
from spherec.recommender.placing import Placing
from spherec.training import Training


@dataclass(frozen=True)
class Growth:
    """What to go on with."""

    data: Interactions
    "Old and new pairs; old ids keep their indices, new ones come after them."
    fresh: NDArray[np.bool_]
    "(E,) which of the pairs the model has not learned from."

    def held_out(self, config: Training, share: float) -> tuple[Interactions, Validation | None]:
        """What to learn from, and what to validate on: a share of the new pairs, or nothing if it is 0."""
        if share == 0:
            return self.data, None
        if not 0 < share < 1:
            raise ArgumentError(f"validation must be 0 or a share between 0 and 1, got {share:g}")
        new = np.flatnonzero(self.fresh)
        tested = np.zeros(len(self.data), dtype=bool)
        tested[rng.stream(config.seed, "new pairs held out").permutation(new)[: round(share * len(new))]] = True
        if not tested.any():
            raise ArgumentError(
                f"validation {share:g} of {len(new):,} new pairs holds nothing out; raise it, or give 0, with epochs"
            )
        learned = self.data.filter(~tested)
        return learned, Validation(learned, self.data.filter(tested))


def joined(old: Interactions, new: Interactions) -> Growth:
    """Old and new pairs together. Ids of `new` without any pair are left out."""
    user_ids, users = _extended(old.user_ids, new.user_ids, new.users, "user")
    item_ids, items = _extended(old.item_ids, new.item_ids, new.indices, "item")
    wide = max(len(item_ids), 1)
    had = pair_keys(old.users, old.indices, wide)  # (E,) ascending
    pairs = np.union1d(had, pair_keys(users, items, wide))
    data = Interactions(
        indptr=row_starts((pairs // wide).astype(np.int32), len(user_ids)),
        indices=(pairs % wide).astype(np.int32),
        user_ids=user_ids,
        item_ids=item_ids,
    )
    names = merge_item_names(old, new)
    return Growth(data.with_item_names(names) if names else data, ~np.isin(pairs, had, assume_unique=True))


def start_of(growth: Growth, made: Artifact, placing: Placing) -> DenseVectors:
    """Where training goes on: old rows where they are, new users by their items, new items among their users."""
    if not growth.fresh.any():
        raise DataError("there is nothing new in these interactions; give some that the model has not learned from")
    data, vectors = growth.data, made.vectors
    generator = rng.torch_stream(made.config.seed, "new vectors", data.n_users, data.n_items)
    random = DenseVectors.random(data.n_users, data.n_items, made.config.dim, generator)
    users, items = random.user_table, random.item_table
    n_users, n_items = len(vectors.user_table), len(vectors.item_table)
    users[:n_users], items[:n_items] = vectors.user_table, vectors.item_table
    known = np.arange(data.n_items) < n_items
    for user in range(n_users, data.n_users):
        own = data.items_of(user)
        if known[own].any():
            users[user] = placing.place(own[known[own]])
    _among_users(items, users, data, np.flatnonzero(~known))
    constraint = vectors.constraint
    return DenseVectors(project(users, constraint), project(items, constraint), constraint)


def _among_users(items: Tensor, users: Tensor, data: Interactions, new: NDArray[np.int64]) -> None:
    """Put new items (n,) into the middle of the users who have them."""
    sums = torch.zeros_like(items)
    sums.index_add_(0, torch.from_numpy(data.indices.astype(np.int64)), users[data.users.astype(np.int64)])
    items[new] = unit(sums[new])


def with_users(made: Artifact, growth: Growth, placing: Placing) -> Artifact:
    """The model with the users of new pairs placed by all their items; no item is new."""
    data, table = growth.data, made.vectors.user_table
    users = torch.cat((table, table.new_zeros(data.n_users - len(table), table.shape[1])))  # (U, D)
    for user in np.unique(data.users[growth.fresh]).tolist():
        users[user] = placing.place(data.items_of(user))
    return replace(made, vectors=replace(made.vectors, user_table=users), data=data)


def _extended(
    old: IdMap, new: IdMap, used: NDArray[np.int32], role: Literal["user", "item"]
) -> tuple[IdMap, NDArray[np.int64]]:
    """Old ids with the new ones that are used behind them, and the indices of `used` (E,) among them."""
    place = old.find(new)  # (n,)
    strange = np.flatnonzero((place < 0) & (np.bincount(used, minlength=len(new)) > 0))
    names = [new[int(index)] for index in strange]
    refuse_twins(old, names, f"the model knows the {role}", "the new interactions have")
    place[strange] = len(old) + np.arange(len(strange))
    return IdMap([*old, *names]) if names else old, place[used]
