"""Training continued: a trained model and new interactions, under one set of indices."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec import rng
from spherec.artifact import Artifact
from spherec.data.events import pair_keys
from spherec.data.features import Features
from spherec.data.ids import IdMap, refuse_twins
from spherec.data.interactions import Interactions, merge_item_names, row_starts
from spherec.embedding import FeatureMap
from spherec.errors import ArgumentError, DataError
from spherec.evaluation.validation import Validation, check_validation_share, default_share
from spherec.geometry import DenseVectors, project, unit
from spherec.recommender.fold_in import FoldIn
from spherec.recommender.new_items import extend_items, merge_features, place_described
from spherec.training import Training

_FEWEST_EPOCHS = 3  # of a run with a handful of new pairs


@dataclass(frozen=True)
class Growth:
    """Old and new pairs together."""

    data: Interactions
    "All pairs; old ids keep their indices, new ones come after them."
    fresh: NDArray[np.bool_]
    "(E,) True for pairs that the model has not learned from."

    def plan(self, config: Training, epochs: int | None, validation: float | None) -> tuple[Training, float]:
        """Return the settings of the continued run and the share of the new pairs to hold out.

        Without `epochs`, and with nothing held out, the run has √s times the epochs of a first one, where s is the
        share of pairs that are new, and at least 3. See docs/using-a-model.md for figures.
        """
        fresh, whole = int(self.fresh.sum()), config.plan(len(self.data)).epochs
        if epochs is None and not validation:
            length = max(math.ceil(whole * math.sqrt(fresh / len(self.data))), _FEWEST_EPOCHS)
            return replace(config, epochs=min(length, whole)), 0.0
        share = default_share(config) if validation is None else validation
        if validation is None and not round(share * fresh):
            share = 0.0
        return replace(config, epochs=whole if epochs is None else epochs), share

    def hold_out(self, config: Training, share: float) -> tuple[Interactions, Validation | None]:
        """Return the pairs to learn from and the validation on a share of the new pairs, None if the share is 0."""
        if share == 0:
            return self.data, None
        check_validation_share(share)
        new, tested = np.flatnonzero(self.fresh), np.zeros(len(self.data), dtype=bool)
        tested[rng.stream(config.seed, "new pairs held out").permutation(new)[: round(share * len(new))]] = True
        if not tested.any():
            raise ArgumentError(
                f"validation {share:g} of {len(new):,} new pairs holds nothing out; raise it, or leave it out"
            )
        learned = self.data.filter(~tested)
        return learned, Validation(learned, self.data.filter(tested))


def merge(old: Interactions, new: Interactions) -> Growth:
    """Merge old and new pairs. Ids of `new` without any pair are left out.

    Weights of one pair add up. A pair without a weight, where others have some, counts as its user's do on average.
    """
    user_ids, users = _extend(old.user_ids, new.user_ids, new.users, "user")
    item_ids, items = _extend(old.item_ids, new.item_ids, new.indices, "item")
    wide = max(len(item_ids), 1)
    had, given = pair_keys(old.users, old.indices, wide), pair_keys(users, items, wide)
    pairs = np.union1d(had, given)  # (E,) ascending
    owners = (pairs // wide).astype(np.int32)  # (E,)
    data = Interactions(
        indptr=row_starts(owners, len(user_ids)),
        indices=(pairs % wide).astype(np.int32),
        user_ids=user_ids,
        item_ids=item_ids,
        weights=_merge_weights(pairs, owners, (had, old.weights), (given, new.weights)),
    )
    names = merge_item_names(old, new)
    return Growth(data.with_item_names(names) if names else data, ~np.isin(pairs, had, assume_unique=True))


def initial_vectors(growth: Growth, artifact: Artifact, fold_in: FoldIn) -> DenseVectors:
    """Return the vectors that training continues from.

    Old rows stay where they are, new users are placed by their items, new items begin among their users, with the reach
    of items that have as many.
    """
    if not growth.fresh.any() and growth.data.weights_checksum == artifact.data.weights_checksum:
        raise DataError("there is nothing new in these interactions; give some that the model has not learned from")
    data, vectors = growth.data, artifact.vectors
    generator = rng.torch_stream(artifact.config.seed, "new vectors", data.n_users, data.n_items)
    random = DenseVectors.random(data.n_users, data.n_items, artifact.config.dim, generator)
    users, items = random.user_table, random.item_table
    users[: vectors.n_users], items[: vectors.n_items] = vectors.user_table, vectors.item_table
    known = np.arange(data.n_items) < vectors.n_items
    for user in range(vectors.n_users, data.n_users):
        own = data.items_of(user)
        if known[own].any():
            users[user] = fold_in.place(own[known[own]])
    sums = torch.zeros_like(items)  # new items begin in the middle of their users
    sums.index_add_(0, torch.from_numpy(data.indices.astype(np.int64)), users[data.users.astype(np.int64)])
    items[vectors.n_items :] = unit(sums[vectors.n_items :])
    constraint = vectors.constraint
    reach = None if vectors.item_reach is None else _extend_reach(vectors.item_reach, data.users_per_item)
    return DenseVectors(project(users, constraint), project(items, constraint), constraint, reach, vectors.mainstream)


def continue_features(
    growth: Growth,
    artifact: Artifact,
    initial: DenseVectors,
    new: Features | None,
    names: Mapping[Any, str] | None = None,
) -> tuple[Growth, DenseVectors, Features, FeatureMap]:
    """Return pairs, vectors, features and map from which a model with features continues.

    Items of `new` that are in no pair are added, with these names. New items with features begin where they place them.
    """
    learned, data, features = artifact.feature_map, growth.data, artifact.features
    assert features is not None
    assert learned is not None
    if new is not None:
        data = extend_items(data, new, names)
    features = merge_features(features, new or features, data.item_ids)
    n_known, n_added = artifact.vectors.n_items, data.n_items - initial.n_items
    anew = features.known & ((np.arange(data.n_items) >= n_known) | (data.users_per_item == 0))  # (I,) or nobody has it
    places = place_described(artifact, features.matrix[anew], data.item_ids.array[anew])
    at = torch.from_numpy(np.flatnonzero(anew))
    table, reach = (
        None if rows is None else torch.cat((rows, rows.new_zeros(n_added, rows.shape[1])))
        for rows in (initial.item_table, initial.item_reach)
    )
    lengths = torch.cat((learned.lengths, learned.lengths.new_ones(data.n_items - n_known, learned.lengths.shape[1])))
    assert table is not None
    table[at], lengths[at] = places.rows, places.lengths
    if reach is not None:
        reach[at] = places.reach
    first = replace(initial, item_table=table, item_reach=reach)
    return Growth(data, growth.fresh), first, features, FeatureMap(learned.weights, lengths)


def _extend_reach(old: Tensor, counts: NDArray[np.int64]) -> Tensor:
    """Return the reach (I, P) of old items followed by that of new ones: what their numbers of users (I,) lead to.

    A line through the old items that have users says how reach grows with log(1 + users). No new item goes beyond
    theirs: it would come first in all lists of the long tail.
    """
    depth = torch.from_numpy(np.log1p(counts)).float()  # (I,)
    known, new = (torch.stack((torch.ones_like(x), x), 1) for x in (depth[: len(old)], depth[len(old) :]))  # (n, 2)
    learned = depth[: len(old)] > 0
    line = torch.linalg.lstsq(known[learned], old[learned], driver="gelsd").solution  # (2, P)
    return torch.cat((old, (new @ line).clamp(old.amin(0), old.amax(0))))


def add_users(artifact: Artifact, growth: Growth, fold_in: FoldIn) -> Artifact:
    """Return the model with the users of new pairs placed by all their items; no item is new."""
    data, table = growth.data, artifact.vectors.user_table
    users = torch.cat((table, table.new_zeros(data.n_users - len(table), table.shape[1])))  # (U, D)
    for user in np.unique(data.users[growth.fresh]).tolist():
        users[user] = fold_in.place(data.items_of(user))
    return replace(artifact, vectors=replace(artifact.vectors, user_table=users), data=data)


def _extend(
    old: IdMap, new: IdMap, used: NDArray[np.int32], role: Literal["user", "item"]
) -> tuple[IdMap, NDArray[np.int64]]:
    """Return the old ids followed by the new ones that are used, and the indices of `used` (E,) among them."""
    index = old.find(new)  # (n,)
    strange = np.flatnonzero((index < 0) & (np.bincount(used, minlength=len(new)) > 0))
    added = [new[int(position)] for position in strange]
    refuse_twins(old, added, f"the model knows the {role}", "the new interactions have")
    index[strange] = len(old) + np.arange(len(strange))
    return IdMap([*old, *added]) if added else old, index[used]


def _merge_weights(
    pairs: NDArray[np.int64], users: NDArray[np.int32], *sources: tuple[NDArray[np.int64], NDArray[np.float64] | None]
) -> NDArray[np.float64] | None:
    """Return the weights of pairs (E,) of users (E,), from pairs with weights; None if no source has any.

    A pair without a weight gets the one whose ln(1 + w), by which losses are multiplied, is the mean of its user's, or
    of all pairs if the user has none.
    """
    if all(given is None for _, given in sources):
        return None
    weights = np.zeros(len(pairs))
    for some, given in sources:
        if given is not None:
            weights[np.searchsorted(pairs, some)] += given
    logs, known = np.log1p(weights), weights > 0  # (E,), (E,)
    sums, counts = np.bincount(users, logs), np.bincount(users, known)  # (U,), (U,)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), logs.sum() / known.sum())  # (U,)
    return np.where(known, weights, np.expm1(means[users]))
