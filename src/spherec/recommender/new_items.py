"""Cold start of items: those that nobody has yet are placed by their features, next to all others."""

import warnings
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.artifact import Artifact
from spherec.data.features import Features
from spherec.data.ids import IdMap, refuse_twins
from spherec.data.interactions import Interactions, merge_item_names
from spherec.embedding import FeatureMap
from spherec.errors import ArgumentError, DataError, UnknownContentWarning, enumerate_ids
from spherec.training.step import measure_lengths, place_rows


def fit_features(
    content: Any, data: Interactions, item: str | None, names: Mapping[Any, str] | None
) -> tuple[Interactions, Features]:
    """Return the interactions with the items that only the features have, and the features of all items.

    The content is what `fit` is given: `Features`, a frame with the ids in the column `item`, a matrix, or several.
    """
    features = _to_features(content, data, item)
    features.align(data.item_ids)  # refuses features of other items
    data = extend_items(data, features, names)
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
    _check_names(names)
    return data.with_item_names({**names, **merge_item_names(data)})


def extend_items(data: Interactions, features: Features, names: Mapping[Any, str] | None) -> Interactions:
    """Return the interactions with the items that only the features describe. They come last, and nobody has them."""
    is_new = (data.item_ids.find(features.item_ids) < 0) & features.known  # (n,)
    added = [features.item_ids[int(at)] for at in np.flatnonzero(is_new)]
    refuse_twins(data.item_ids, added, "the data has the item", "the features have")
    if not added:
        return data
    grown = replace(data, item_ids=IdMap([*data.item_ids, *added]), item_names=None)
    if data.item_names is None and not names:
        return grown
    return grown.with_item_names({**(names or {}), **merge_item_names(data)})


def add_placed_items(artifact: Artifact, features: Features, names: Mapping[Any, str] | None) -> Artifact:
    """Return the model with new items at the places that their features give them; nothing else moves."""
    _check_names(names)
    known, learned, vectors = artifact.features, artifact.feature_map, artifact.vectors
    assert known is not None
    assert learned is not None
    is_there = artifact.data.item_ids.find(features.item_ids) >= 0
    for wrong, why in (
        (is_there, "the model knows them already; leave them out"),
        (~features.known, "they have no features to be placed by; leave them out, or describe them"),
    ):
        if wrong.any():
            items = [features.item_ids[int(at)] for at in np.flatnonzero(wrong)]
            raise DataError(f"{len(items):,} of the items cannot be added: {enumerate_ids(items)}; {why}")
    grown = extend_items(artifact.data, features, names)
    places = place_described(artifact, features.matrix, features.item_ids.array)
    reach = None if vectors.item_reach is None else torch.cat((vectors.item_reach, places.reach))
    stored = artifact.stored_fold_in
    if stored is not None:
        stored = replace(stored, law=np.concatenate((stored.law, np.zeros(features.n_items))))
    return replace(
        artifact,
        vectors=replace(vectors, item_table=torch.cat((vectors.item_table, places.rows)), item_reach=reach),
        data=grown,
        checksum=None,
        stored_fold_in=stored,
        features=merge_features(known, features, grown.item_ids),
        feature_map=FeatureMap(learned.weights, torch.cat((learned.lengths, places.lengths))),
    )


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


@dataclass(frozen=True)
class Places:
    """Places of n items that have no row of their own, by their features."""

    rows: Tensor
    "(n, D) as they are stored."
    lengths: Tensor
    "(n, P) in each subspace."
    reach: Tensor
    "(n, P) as it adds to a score; without meaning in a model without reach."


def place_described(artifact: Artifact, numbers: NDArray[np.float32], item_ids: NDArray[Any]) -> Places:
    """Place items (n,) by their features (n, F).

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
    return Places(place_rows(rows, config.constraint, reach=config.reach), lengths, rows[..., -1] * scale)


def _check_names(names: object) -> None:
    if not isinstance(names, Mapping | None):
        raise ArgumentError(
            f"names must be a mapping of ids to names, got {type(names).__name__}; give dict(zip(ids, names))"
        )
