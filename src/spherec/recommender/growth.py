"""Models that grow: new pairs, users and items come in, and training goes on from where the model is.

Items that nobody has yet are placed by their features (cold start), new users by their items (fold-in).
"""

import math
import warnings
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec import rng
from spherec.artifact import Artifact
from spherec.data.events import pair_keys
from spherec.data.features import Features
from spherec.data.ids import IdMap, refuse_twins
from spherec.data.interactions import Interactions, merge_dislikes, merge_item_names, row_starts
from spherec.data.splits import check_share
from spherec.embedding import FeatureMap
from spherec.errors import ArgumentError, DataError, UnknownContentWarning, enumerate_ids
from spherec.evaluation.validation import Validation, default_share
from spherec.geometry import DenseVectors, measure_lengths, place_rows, project, unit
from spherec.recommender.fold_in import FoldIn
from spherec.training import Training

_FEWEST_EPOCHS = 3  # of a run with a handful of new pairs
_NO_DISLIKES = np.zeros((0, 2), dtype=np.int32)

# --- New pairs and users ---------------------------------------------------------------------------------------------


class News(NamedTuple):
    """The material of an update."""

    pairs: Interactions
    item_features: Any = None
    "Tables of new and of changed items."


@dataclass(frozen=True)
class Growth:
    """Old and new pairs together."""

    data: Interactions
    "All pairs; old ids keep their indices, new ones come after them."
    fresh: NDArray[np.bool_]
    "(E,) True for pairs that the model has not learned from."

    def is_news_to(self, artifact: Artifact) -> bool:
        """Tell whether there is a pair, a weight or a dislike that the model does not have."""
        had, has = (_NO_DISLIKES if one.disliked is None else one.disliked for one in (artifact.data, self.data))
        is_weighed_alike = self.data.checksums["weights"] == artifact.data.checksums["weights"]
        return bool(self.fresh.any()) or not is_weighed_alike or not np.array_equal(had, has)

    def plan(self, config: Training, epochs: int | None, validation: float | None) -> tuple[Training, float]:
        """Return the settings of the continued run and the share of the new pairs to hold out.

        Without `epochs`, and with nothing held out, the run has √s times the epochs of a first one, where s is the
        share of pairs that are new, and at least 3. See docs/using-a-model.md for figures.
        """
        if validation is not None:
            check_share("validation", validation, or_none=True)
        usual = replace(config, epochs=config.epochs or None)  # a start that was the model has no epochs of its own
        fresh, whole = int(self.fresh.sum()), usual.plan(len(self.data)).epochs
        if epochs is None and not validation:
            length = max(math.ceil(whole * math.sqrt(fresh / len(self.data))), _FEWEST_EPOCHS)
            return replace(config, epochs=min(length, whole)), 0.0
        share = default_share(config) if validation is None else validation
        share = share if validation or round(share * fresh) else 0.0  # of a handful, nothing is held out
        return replace(config, epochs=whole if epochs is None else epochs), share

    def hold_out(self, config: Training, share: float) -> tuple[Interactions, Validation | None]:
        """Return the pairs to learn from and the validation on a share of the new pairs, None if the share is 0."""
        if share == 0:
            return self.data, None
        new, tested = np.flatnonzero(self.fresh), np.zeros(len(self.data), dtype=bool)
        tested[rng.stream(config.seed, "new pairs held out").permutation(new)[: round(share * len(new))]] = True
        learned = self.data.filter(~tested)
        return learned, Validation(learned, self.data.filter(tested))


def merge(old: Interactions, new: Interactions) -> Growth:
    """Merge old and new pairs. Ids of `new` without any pair are left out.

    What either has as a positive is no dislike. Weights of one pair add up. A pair without a weight, where others have
    some, counts as its user's do on average.
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
    data, names = replace(data, disliked=merge_dislikes(data, old, new)), merge_item_names(old, new)
    return Growth(data.with_item_names(names) if names else data, ~np.isin(pairs, had, assume_unique=True))


def initial_vectors(growth: Growth, artifact: Artifact, fold_in: FoldIn) -> DenseVectors:
    """Return the vectors that training continues from.

    Old rows stay where they are, new users are placed by their items, new items begin among their users, with the reach
    of items that have as many.
    """
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


def grow(
    artifact: Artifact, growth: Growth, news: News, fold_in: FoldIn
) -> tuple[Growth, DenseVectors, Features | None, FeatureMap | None]:
    """Return the pairs, vectors, features and map from which a model continues.

    Items that only the new features describe are added. New items with features begin where these place them.
    """
    initial, old, described = initial_vectors(growth, artifact, fold_in), artifact.features, None
    if news.item_features is not None:
        tables = news.item_features if isinstance(news.item_features, tuple) else (news.item_features,)
        described = transform_features(artifact, tables, of=news.pairs)
    if old is None:
        return growth, initial, None, None
    data = growth.data if described is None else extend_items(growth.data, described)
    features = merge_features(old, described or old, data.item_ids)
    is_new = np.arange(data.n_items) >= artifact.vectors.n_items  # (I,)
    anew = features.known & (is_new | (data.users_per_item == 0))  # (I,) or nobody has it
    return Growth(data, growth.fresh), *_put_described(artifact, initial, features, anew)


def split_known(
    growth: Growth, artifact: Artifact, new: Interactions, share: float
) -> tuple[Interactions, Interactions]:
    """Hold out a share of the new pairs of users and items that the model knows.

    Return the other new pairs, and those held out, with the ids of the model.
    """
    data, known = growth.data, artifact.data
    is_old = (data.users < known.n_users) & (data.indices < known.n_items)  # (E,)
    pairs = np.flatnonzero(growth.fresh & is_old)
    tested = rng.stream(artifact.config.seed, "gate").permutation(pairs)[: math.ceil(share * len(pairs))]
    held = data.filter(np.isin(np.arange(len(data)), tested))
    users, items = known.user_ids.find(new.user_ids)[new.users], known.item_ids.find(new.item_ids)[new.indices]  # (n,)
    gone = np.isin(pair_keys(users, items, known.n_items), pair_keys(held.users, held.indices, known.n_items))
    return new.filter(~(gone & (users >= 0) & (items >= 0))), held


def remove_rows(artifact: Artifact, users: NDArray[np.int64], items: NDArray[np.int64]) -> Artifact:
    """Return the model without these users and items: without their rows, pairs, ids, names and features.

    What the other rows have learned from them stays.
    """
    data, vectors, learned = artifact.data, artifact.vectors, artifact.feature_map
    kept_users, kept_items = (
        np.delete(np.arange(n), gone) for n, gone in ((data.n_users, users), (data.n_items, items))
    )
    pairs = data.filter(~(np.isin(data.users, users) | np.isin(data.indices, items)))
    number = np.zeros(data.n_items, dtype=np.int32)
    number[kept_items] = np.arange(len(kept_items))
    item_ids = IdMap(data.item_ids.array[kept_items])
    left = Interactions(
        indptr=np.concatenate(([0], np.cumsum(pairs.items_per_user[kept_users]))),
        indices=number[pairs.indices],
        user_ids=IdMap(data.user_ids.array[kept_users]),
        item_ids=item_ids,
        item_names=None if data.item_names is None else tuple(data.item_names[item] for item in kept_items.tolist()),
        weights=pairs.weights,
    )
    left = replace(left, disliked=merge_dislikes(left, data))
    at_users, at_items = torch.from_numpy(kept_users), torch.from_numpy(kept_items)
    reach, stored, features = vectors.item_reach, artifact.stored_fold_in, artifact.features
    return replace(
        artifact,
        data=left,
        vectors=replace(
            vectors,
            user_table=vectors.user_table[at_users],
            item_table=vectors.item_table[at_items],
            item_reach=None if reach is None else reach[at_items],
        ),
        checksum=None,
        stored_fold_in=None if stored is None else replace(stored, law=stored.law[kept_items]),
        features=None if features is None else replace(features.align(item_ids), left_out=()),
        feature_map=None if learned is None else replace(learned, lengths=learned.lengths[at_items]),
        shards=(),
    )


def _lengthen(rows: Tensor, length: int, value: float = 0.0) -> Tensor:
    """Return a copy of a table with so many rows in all."""
    return torch.cat((rows, rows.new_full((length - len(rows), rows.shape[1]), value)))


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
    data = growth.data
    users = _lengthen(artifact.vectors.user_table, data.n_users)  # (U, D)
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


# --- Features and names of items -------------------------------------------------------------------------------------


def fit_features(content: Any, data: Interactions, item: str | None) -> tuple[Interactions, Features]:
    """Return the interactions with the items that only the features have, and the features of all items.

    The content is what `fit` is given.
    """
    features = _to_features(content, data, item)
    features.align(data.item_ids)  # refuses features of other items
    data = extend_items(data, features)
    return data, features.align(data.item_ids)


def _to_features(content: Any, data: Interactions, item: str | None) -> Features:
    if isinstance(content, Features):
        return content
    if isinstance(content, tuple):
        return Features.join(*(_to_features(table, data, item) for table in content))
    if not hasattr(content, "columns"):
        return Features.from_matrix(content, data.item_ids)
    if item is None:
        raise ArgumentError("item_features: name the column of item ids with item=…, or give Features.from_frame")
    return Features.from_frame(content, item=item)


def transform_features(
    artifact: Artifact,
    tables: tuple[Any, ...],
    item_ids: Iterable[Hashable] | None = None,
    *,
    of: Interactions | None = None,
) -> Features:
    """Return the features of other items by the model's transformation; `Features` must have been made by it.

    The rows of a matrix are those of `item_ids`, or of the items of some interactions.
    """
    if artifact.features is None:
        raise ArgumentError(
            "the model was trained without item features, so it cannot place items by them; fit it with item_features=…"
        )
    if len(tables) == 1 and isinstance(tables[0], Features):
        if tables[0].sources != artifact.features.sources:
            raise ArgumentError(
                "these features were not made by the model's transformation; give the tables themselves, or features "
                "that it made (model.artifact.features.transform)"
            )
        return tables[0]
    sources = artifact.features.sources
    if item_ids is None and len(tables) == len(sources) and any(source.item is None for source in sources):
        if of is None:
            raise ArgumentError("the rows of a matrix have no ids of their own; say whose they are with item_ids=…")
        item_ids = of.item_ids
    features = artifact.features.transform(*tables, item_ids=item_ids)
    if features.unknown:
        content = ", ".join(f"{what} ({count:,})" for what, count in features.unknown)
        text = f"the model does not know some content of these items, and ignores or cuts it: {content}"
        warnings.warn(UnknownContentWarning(text), stacklevel=3)
    return features


def name_items(data: Interactions, names: Mapping[Any, str]) -> Interactions:
    """Return the interactions with these names for the items that have none yet."""
    return data.with_item_names({**names, **merge_item_names(data)})


def extend_items(data: Interactions, features: Features) -> Interactions:
    """Return the interactions with the items that only the features describe. They come last, and nobody has them."""
    is_new = (data.item_ids.find(features.item_ids) < 0) & features.known  # (n,)
    added = [features.item_ids[int(at)] for at in np.flatnonzero(is_new)]
    refuse_twins(data.item_ids, added, "the data has the item", "the features have")
    if not added:
        return data
    names = None if data.item_names is None else (*data.item_names, *[None] * len(added))
    return replace(data, item_ids=IdMap([*data.item_ids, *added]), item_names=names)


def add_placed_items(artifact: Artifact, features: Features) -> Artifact:
    """Return the model with new items at the places that their features give them; nothing else moves."""
    assert artifact.features is not None
    is_there = artifact.data.item_ids.find(features.item_ids) >= 0
    if (wrong := is_there | ~features.known).any():
        items = [features.item_ids[int(at)] for at in np.flatnonzero(wrong)]
        why = "the model knows them already" if is_there.any() else "they have no features to be placed by"
        raise DataError(f"{len(items):,} of the items cannot be added: {enumerate_ids(items)}; {why}; leave them out")
    data, vectors, stored = extend_items(artifact.data, features), artifact.vectors, artifact.stored_fold_in
    if stored is not None:
        stored = replace(stored, law=np.concatenate((stored.law, np.zeros(features.n_items))))
    merged = merge_features(artifact.features, features, data.item_ids)
    vectors, merged, learned = _put_described(artifact, vectors, merged, np.arange(data.n_items) >= vectors.n_items)
    artifact = replace(artifact, vectors=vectors, data=data, stored_fold_in=stored, checksum=None)
    return replace(artifact, features=merged, feature_map=learned)


def _put_described(
    artifact: Artifact, vectors: DenseVectors, features: Features, anew: NDArray[np.bool_]
) -> tuple[DenseVectors, Features, FeatureMap]:
    """Return vectors and a map of all items, where some (I,) are placed by their features; and the features."""
    learned, reach, n, at = artifact.feature_map, vectors.item_reach, len(anew), torch.from_numpy(np.flatnonzero(anew))
    assert learned is not None
    rows, lengths, their_reach = place_described(artifact, features.matrix[anew], features.item_ids.array[anew])
    if reach is not None:
        reach = _lengthen(reach, n).index_copy_(0, at, their_reach)
    vectors = replace(vectors, item_table=_lengthen(vectors.item_table, n).index_copy_(0, at, rows), item_reach=reach)
    return vectors, features, replace(learned, lengths=_lengthen(learned.lengths, n, 1).index_copy_(0, at, lengths))


def merge_features(old: Features, new: Features, item_ids: IdMap) -> Features:
    """Return the features of all these items: those of `new` where it knows the item, else those of `old`."""
    numbers = np.zeros((len(item_ids), old.n_features), dtype=np.float32)
    known = np.zeros(len(item_ids), dtype=bool)
    for features in (old, new):
        index = item_ids.find(features.item_ids)  # (n,)
        here = (index >= 0) & features.known
        numbers[index[here]], known[index[here]] = features.matrix[here], True
    left_out = old.left_out if new is old else (*old.left_out, *new.left_out)
    return Features(item_ids, numbers, known, old.sources, left_out)


def place_described(
    artifact: Artifact, numbers: NDArray[np.float32], item_ids: NDArray[Any]
) -> tuple[Tensor, Tensor, Tensor]:
    """Place items (n,) by their features (n, F): their rows (n, D), their lengths (n, P), and their reach (n, P).

    Their reach does not go beyond that of the model's items: one wrong number would put an item first in all lists.
    """
    learned, config, reach = artifact.feature_map, artifact.config, artifact.vectors.item_reach
    assert learned is not None
    rows, scale = learned.place(torch.tensor(numbers)), config.loss.distance_scale  # (n, P, d)
    lengths = measure_lengths(rows, reach=config.reach)
    strange = item_ids[~lengths.isfinite().all(1).numpy()].tolist()
    if strange:
        raise DataError(f"numbers of {enumerate_ids(strange)} are far beyond those of training; correct them")
    if reach is not None:
        old = reach / scale  # (I, P)
        clamped = rows[..., -1].clamp(old.amin(0), old.amax(0))  # (n, P)
        mean, means = clamped.mean(1), old.mean(1)  # (n,), (I,) what counts in a list
        rows[..., -1] = clamped + (mean.clamp(means.min(), means.max()) - mean)[:, None]
    return place_rows(rows, config.constraint, reach=config.reach), lengths, rows[..., -1] * scale
