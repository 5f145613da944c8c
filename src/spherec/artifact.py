"""A trained model as one self-contained file: vectors, ids, names, the items of each user, and how it was trained.

docs/artifact.md describes its layout. Rows may be in shards, files of their own next to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from os import PathLike
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.data.features import Features, Transformation
from spherec.data.id_arrays import decode_ids, decode_names, encode_ids, encode_names
from spherec.data.ids import IdMap
from spherec.data.input_files import describe_damage
from spherec.data.interactions import Interactions
from spherec.data.tensor_file import read_tensors, write_tensors
from spherec.distributed.shards import (
    WHOLE,
    Portion,
    Rows,
    ShardFile,
    check_portion,
    read_shards,
    remove_other_shards,
    take_rows,
    write_all_shards,
)
from spherec.embedding import FeatureMap
from spherec.errors import ArgumentError, DataError, quote
from spherec.geometry import DenseVectors, check_finite
from spherec.losses import LOSSES
from spherec.sampling import SAMPLERS
from spherec.training import History, Trained, Training
from spherec.training.trainer import Ended

MODEL_FORMAT = "spherec-model"
MODEL_VERSION = 4
"""Newest version of the model file: rows in shards. Others are written as 3 with item features, 2 with reach, or 1."""

MIDDLE_OF_DIAL = 0.5
"""λ at which new users are placed: the mean of those in training."""

_FITTED = "transformation."  # prefix of the arrays of the features' transformation
_LEARNED = ("feature_weights", "item_lengths")  # arrays of the map that places items by their features


@dataclass(frozen=True)
class FoldInSettings:
    """The part of a loss and a sampler that fold-in needs.

    It is stored in the file of a model whose loss or sampler is a class of the user's own, because a file cannot hold
    the class.
    """

    law: NDArray[np.float64]
    "(I,) weights by which negatives are drawn, regardless of the space."
    temperature: float
    "τ of the softmin that places a user."
    bias_correction: float
    "γ, how far the bias of drawing is undone."

    @classmethod
    def of(cls, config: Training, data: Interactions) -> "FoldInSettings":
        """Ask the loss and the sampler. The bias is undone as in training: if the sampler's law has a closed form.

        With reach, it is undone as in the middle of the dial.
        """
        loss = config.loss.resolve(data)
        correction = (loss.bias_correction or 0.0) if config.sampler.gives_log_q else 0.0
        return cls(config.sampler.law(data), loss.distance_scale, correction * (MIDDLE_OF_DIAL if config.reach else 1))


@dataclass(frozen=True)
class Artifact:
    """The content of a model file."""

    vectors: DenseVectors
    "Vectors of users and items, on the CPU."
    data: Interactions
    "The users and items with their ids and names, and the pairs that the model was trained on, with their weights."
    config: Training
    "Settings of the training."
    history: History
    "Record of the training, epoch by epoch."
    ended: Ended
    "Reason that training ended."
    checksum: str | None = None
    "Checksum of the file that it was loaded from."
    stored_fold_in: FoldInSettings | None = None
    "Settings of fold-in from the file; None if the loss and the sampler of `config` know them."
    features: Features | None = None
    "Features of all items, in the order of `data`, and their transformation; None if it was trained without."
    feature_map: FeatureMap | None = None
    "The map that places items by their features; None if it was trained without."
    is_part: bool = False
    "True if it has only some of the users or items of a file."
    shards: tuple[str, ...] = ()
    "Names of the shards of the file that it was loaded from."

    @classmethod
    def of(cls, trained: Trained, data: Interactions, features: Features | None = None) -> "Artifact":
        """Return the content of the file for a run on `data`, with `features` of its items."""
        vectors, learned = trained.vectors.to(torch.device("cpu")), trained.feature_map
        if learned is not None:
            learned = FeatureMap(learned.weights.cpu(), learned.lengths.cpu())
        run = trained.config, trained.history, trained.ended
        return cls(vectors, data, *run, features=features, feature_map=learned)

    @property
    def fold_in(self) -> FoldInSettings:
        """Settings of fold-in: those in the file, or those of the loss and the sampler."""
        return self.stored_fold_in or FoldInSettings.of(self.config, self.data)

    def __getstate__(self) -> dict[str, Any]:
        """Copy the fields alone, because another thread may be adding a cached property."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def placed_items(self) -> NDArray[np.bool_]:
        """(I,) False for items that are still where they began: nobody has them, and they have no features."""
        has_users: NDArray[np.bool_] = self.data.users_per_item > 0
        return has_users if self.features is None else has_users | self.features.known

    @property
    def version(self) -> int:
        """Version of the file that it is written as."""
        if self.features is not None:
            return 3
        return 1 if self.vectors.item_reach is None else 2

    def save(self, path: str | PathLike[str], *, shards: int | None = None) -> None:
        """Write the model atomically, with `shards` into so many files more. The same model gives the same bytes."""
        self.refuse_part("be saved")
        check_finite(self.vectors)
        arrays, manifest = self._describe()
        rows = self.rows() | self.pairs()
        if shards is None:
            write_tensors(path, rows | arrays, manifest)
            remove_other_shards(path)
        else:
            self.write_index(path, write_all_shards(path, rows, shards))

    def refuse_part(self, action: str) -> None:
        """Raise an `ArgumentError` if this is a part of a model, which cannot do what takes all of it."""
        if self.is_part:
            raise ArgumentError(f"a part of a model cannot {action}; load the whole model")

    def write_index(self, path: str | PathLike[str], shards: Sequence[ShardFile]) -> None:
        """Write the model file itself, whose rows are in shards."""
        arrays, manifest = self._describe()
        counts = {"users": self.data.n_users, "items": self.data.n_items}
        write_tensors(path, arrays, manifest | {"version": MODEL_VERSION, "shards": shards, **counts})
        remove_other_shards(path, shards)

    def rows(self) -> Rows:
        """Return the arrays with a row for each item or user."""
        rows: Rows = {
            "item_vectors": self.vectors.item_table.numpy(),  # (I, D) first, where it is aligned best
            "user_vectors": self.vectors.user_table.numpy(),  # (U, D)
        }
        if self.vectors.item_reach is not None:
            rows["item_reach"] = self.vectors.item_reach.numpy()  # (I, P)
        if self.features is not None and self.feature_map is not None:
            rows |= {
                "features": self.features.matrix,  # (I, F)
                "features_known": self.features.known,  # (I,)
                "item_lengths": self.feature_map.lengths.numpy(),  # (I, P)
            }
        return rows

    def pairs(self) -> Rows:
        """Return the arrays of all pairs."""
        pairs: Rows = {"indptr": self.data.indptr, "indices": self.data.indices}  # (U + 1,), (E,)
        if self.data.weights is not None:
            pairs["pair_weights"] = self.data.weights  # (E,)
        return pairs

    def _describe(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return all other arrays, and the manifest."""
        data, config = self.data, self.config
        arrays = encode_ids(data.user_ids, "user_ids") | encode_ids(data.item_ids, "item_ids")
        if data.item_names is not None:
            arrays |= encode_names(data.item_names, "item_names")
        manifest = {
            "format": MODEL_FORMAT,
            "version": self.version,
            "config": config.to_record(),
            "history": self.history.as_records(),
            "ended": self.ended,
        }
        if type(config.loss) not in LOSSES.values() or type(config.sampler) not in SAMPLERS.values():
            fold_in = self.fold_in
            arrays["fold_in_law"] = np.asarray(fold_in.law, dtype=np.float64)
            manifest["fold_in"] = {"temperature": fold_in.temperature, "bias_correction": fold_in.bias_correction}
        if self.features is not None and self.feature_map is not None:
            fitted, manifest["features"] = self.features.transformation.to_arrays()
            arrays["feature_weights"] = self.feature_map.weights.numpy()  # (P, F + 1, d)
            arrays |= {f"{_FITTED}{name}": array for name, array in fitted.items()}
        return arrays, manifest

    @classmethod
    def load(
        cls, path: str | PathLike[str], *, mmap: bool = False, users: Portion = WHOLE, items: Portion = WHOLE
    ) -> "Artifact":
        """Read a file that `save` wrote, and its shards if it has some.

        Args:
            path: The model file.
            mmap: Map vectors from the file instead of reading them into memory. Those of several shards are read.
            users: (j, m) loads each m-th user alone, from the j-th on.
            items: The same for items.
        """
        is_part = (check_portion(users, "users"), check_portion(items, "items")) != (WHOLE, WHOLE)
        arrays, manifest = read_tensors(path, MODEL_FORMAT, MODEL_VERSION, oldest=1, remedy="train it again", mmap=mmap)
        if "shards" in manifest:
            arrays |= read_shards(path, manifest, users, items, mmap=mmap)
        try:
            n_items = int(manifest["items"]) if "shards" in manifest else len(arrays["item_vectors"])
            chosen_users = slice((users[0] - n_items) % users[1], None, users[1])
            chosen_items = slice(items[0], None, items[1])
            if is_part and "shards" not in manifest:
                arrays |= take_rows(arrays, users, items)
            if "fold_in_law" in arrays:
                arrays["fold_in_law"] = arrays["fold_in_law"][chosen_items]
            data = Interactions(
                indptr=arrays["indptr"],
                indices=arrays["indices"],
                user_ids=IdMap(decode_ids(arrays, "user_ids", chosen_users)),
                item_ids=IdMap(decode_ids(arrays, "item_ids", chosen_items)),
                item_names=decode_names(arrays, "item_names", chosen_items),
                weights=arrays.get("pair_weights"),
            )
            config = Training.from_dict(manifest["config"])
            user_table, item_table = (torch.from_numpy(arrays[name]) for name in ("user_vectors", "item_vectors"))
            if config.reach != ("item_reach" in arrays):
                raise ValueError("it has an item_reach without reach, or the other way round")
            reach = torch.from_numpy(arrays["item_reach"]) if config.reach else None
            if reach is not None and reach.shape != (len(item_table), config.subspaces):
                raise ValueError(f"item_reach is of shape {(*reach.shape,)}")
            vectors = DenseVectors(user_table, item_table, config.constraint, reach, config.mainstream)
            check_finite(vectors)
            if (vectors.n_users, vectors.n_items, vectors.dim) != (data.n_users, data.n_items, config.dim):
                raise ValueError(f"{(*user_table.shape,)} and {(*item_table.shape,)} vectors for {data}")
            if manifest["ended"] not in get_args(Ended):
                raise ValueError(f"it ended with {quote(manifest['ended'])}")
            history = History.from_records(manifest["history"])
            fold_in = _read_fold_in(arrays, manifest, data.n_items)
            features, learned = _read_features(arrays, manifest, data, config)
            ended, checked = manifest["ended"], manifest["checksum"]
            shards = tuple(name for name, _ in manifest.get("shards", ()))
            return cls(vectors, data, config, history, ended, checked, fold_in, features, learned, is_part, shards)
        except Exception as error:  # whatever forged content raises
            raise DataError(f"{path} is damaged ({describe_damage(error)}); train it again") from None


def _read_fold_in(arrays: dict[str, NDArray[Any]], manifest: dict[str, Any], n_items: int) -> FoldInSettings | None:
    if "fold_in" not in manifest:
        return None
    law, settings = arrays["fold_in_law"], manifest["fold_in"]
    if law.shape != (n_items,) or law.dtype != np.float64 or not np.isfinite(law).all() or law.min(initial=0) < 0:
        raise ValueError("fold_in_law is no weight for each item")
    temperature, correction = float(settings["temperature"]), float(settings["bias_correction"])
    if not (1e-6 <= temperature <= 1e6 and abs(correction) <= 100):
        raise ValueError(f"fold_in is {settings}")
    return FoldInSettings(law, temperature, correction)


def _read_features(
    arrays: dict[str, NDArray[Any]], manifest: dict[str, Any], data: Interactions, config: Training
) -> tuple[Features | None, FeatureMap | None]:
    """Return the features of the items and the map that places by them; None for both if the model has none."""
    if "features" not in manifest:
        return None, None
    fitted = {name.removeprefix(_FITTED): array for name, array in arrays.items() if name.startswith(_FITTED)}
    transformation = Transformation.from_arrays(fitted, manifest["features"])
    features = Features(data.item_ids, arrays["features"], arrays["features_known"], transformation)
    learned = FeatureMap(*(torch.from_numpy(arrays[name]) for name in _LEARNED))
    width = config.dim // config.subspaces + config.reach
    shapes = (config.subspaces, features.n_features + 1, width), (data.n_items, config.subspaces)
    for name, tensor, shape in zip(_LEARNED, (learned.weights, learned.lengths), shapes, strict=True):
        if tensor.shape != shape or tensor.dtype != torch.float32 or not np.isfinite(tensor.numpy()).all():
            raise ValueError(f"{name} is {tensor.dtype} of shape {(*tensor.shape,)}, or not finite")
    return features, learned
