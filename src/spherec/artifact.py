"""A trained model as one self-contained file: vectors, ids, names, the items of each user, and how it was trained.

docs/artifact.md describes its layout. Rows may be in shards, files of their own next to it, which a guest reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.data.container import Arrays, decoding, import_guest, read_container, remove_parts, write_container
from spherec.data.features import Features, read_sources, write_sources
from spherec.data.ids import IdMap, decode_ids, decode_names, encode_ids, encode_names
from spherec.data.interactions import Interactions
from spherec.data.output_files import LONGEST_WRITE, lock_output
from spherec.embedding import FeatureMap
from spherec.errors import ArgumentError
from spherec.geometry import DenseVectors, check_finite
from spherec.losses import LOSSES
from spherec.sampling import SAMPLERS
from spherec.training import History, Trained, Training
from spherec.training.trainer import Ended

MODEL_KIND = "spherec-model"
"""Kind of the model file."""

Portion = tuple[int, int]
"""(j, m): items, or users, whose numbers leave the remainder j when divided by m; users are numbered after items."""

WHOLE: Portion = (0, 1)
"""The portion of all."""

_REMEDY = "train it again"

MIDDLE_OF_DIAL = 0.5
"""λ at which new users are placed: the mean of those in training."""

_FITTED = "transformation."  # prefix of the arrays of the features' transformation


@dataclass(frozen=True)
class FoldInSettings:
    """The part of a loss and a sampler that fold-in needs; a file has it if one is of the user's own class."""

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
        loss = config.loss.resolve(data, config.dim)
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

    def are_placed(self, items: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Return (n,) False for items that are still where they began: nobody has them, and they have no features."""
        has_users: NDArray[np.bool_] = self.data.users_per_item[items] > 0
        return has_users if self.features is None else has_users | self.features.known[items]

    def save(self, path: str | PathLike[str], *, shards: int | None = None) -> None:
        """Write the model atomically, with `shards` into so many files more. The same model gives the same bytes."""
        self.refuse_part("be saved")
        check_finite(self.vectors)
        with lock_output(path, wait=LONGEST_WRITE):
            if shards is None:
                self.write(path, self.rows() | self.pairs())
            else:
                import_guest("spherec-model-shard").write_all(path, self, shards)

    def write(self, path: str | PathLike[str], rows: Arrays, facts: Mapping[str, Any] | None = None) -> None:
        """Write the model file itself, with these rows and pairs, or with facts that name the shards with them."""
        arrays, described = self._describe()
        described |= facts or {}
        write_container(path, MODEL_KIND, rows | arrays, described)
        remove_parts(path, keep=described.get("shards", ()))  # of models that were here before

    def refuse_part(self, action: str) -> None:
        """Raise an `ArgumentError` if this is a part of a model, which cannot do what takes all of it."""
        if self.is_part:
            raise ArgumentError(f"a part of a model cannot {action}; load the whole model")

    def rows(self) -> Arrays:
        """Return the arrays with a row for each item or user."""
        rows: Arrays = {
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

    def pairs(self) -> Arrays:
        """Return the arrays of all pairs."""
        pairs: Arrays = {"indptr": self.data.indptr, "indices": self.data.indices}  # (U + 1,), (E,)
        if self.data.weights is not None:
            pairs["pair_weights"] = self.data.weights  # (E,)
        return pairs

    def _describe(self) -> tuple[Arrays, dict[str, Any]]:
        """Return all other arrays, and the facts of the manifest."""
        data, config = self.data, self.config
        arrays = encode_ids(data.user_ids, "user_ids") | encode_ids(data.item_ids, "item_ids")
        if data.disliked is not None:
            arrays["disliked"] = data.disliked  # (D, 2)
        if data.item_names is not None:
            arrays |= encode_names(data.item_names, "item_names")
        counts = {"users": data.n_users, "items": data.n_items}
        run = {"config": config.to_record(), "history": self.history.as_records(), "ended": self.ended}
        facts: dict[str, Any] = counts | run
        if type(config.loss) not in LOSSES.values() or type(config.sampler) not in SAMPLERS.values():
            fold_in = self.fold_in
            arrays["fold_in_law"] = np.asarray(fold_in.law, dtype=np.float64)
            facts["fold_in"] = {"temperature": fold_in.temperature, "bias_correction": fold_in.bias_correction}
        if self.features is not None and self.feature_map is not None:
            fitted, facts["features"] = write_sources(self.features.sources)
            arrays["feature_weights"] = self.feature_map.weights.numpy()  # (P, F + 1, d)
            arrays |= {f"{_FITTED}{name}": array for name, array in fitted.items()}
        return arrays, facts

    @classmethod
    def load(
        cls, path: str | PathLike[str], *, mmap: bool = False, users: Portion = WHOLE, items: Portion = WHOLE
    ) -> "Artifact":
        """Read a file that `save` wrote, and its shards if it has some: with these portions, or all of it.

        With `mmap`, vectors are mapped from the file; those of several shards are read into memory.
        """
        arrays, manifest = read_container(path, MODEL_KIND, remedy=_REMEDY, mmap=mmap)
        is_part = (users, items) != (WHOLE, WHOLE)
        if is_part or "shards" in manifest:
            shards = import_guest("spherec-model-shard")
            arrays, manifest = shards.read_portions(path, arrays, manifest, users, items, mmap=mmap)
        with decoding(path, _REMEDY):
            config = Training.from_dict(manifest["config"])
            chosen_users = slice((users[0] - int(manifest["items"])) % users[1], None, users[1])
            chosen_items = slice(items[0], None, items[1])
            data = _read_data(arrays, chosen_users, chosen_items)
            features, learned = _read_features(arrays, manifest, data, config)
            return cls(
                _read_vectors(arrays, data, config),
                data,
                config,
                history=History.from_records(manifest["history"]),
                ended=manifest["ended"],
                checksum=manifest["checksum"],
                stored_fold_in=_read_fold_in(arrays, manifest, chosen_items),
                features=features,
                feature_map=learned,
                is_part=is_part,
                shards=tuple(manifest.get("shards", ())),
            )


def _read_data(arrays: Arrays, users: slice, items: slice) -> Interactions:
    disliked = arrays.get("disliked")
    if disliked is not None:
        begin, step = (users.start or 0, items.start or 0), (users.step, items.step)
        disliked = (disliked[((disliked - begin) % step == 0).all(1)] - begin) // step
    return Interactions(
        indptr=arrays["indptr"],
        indices=arrays["indices"],
        user_ids=IdMap(decode_ids(arrays, "user_ids", users)),
        item_ids=IdMap(decode_ids(arrays, "item_ids", items)),
        item_names=decode_names(arrays, "item_names", items),
        weights=arrays.get("pair_weights"),
        disliked=None if disliked is None else disliked.astype(np.int32),
    )


def _read_vectors(arrays: Arrays, data: Interactions, config: Training) -> DenseVectors:
    user_table = _tensor(arrays, "user_vectors", data.n_users, config.dim)
    item_table = _tensor(arrays, "item_vectors", data.n_items, config.dim)
    reach = _tensor(arrays, "item_reach", data.n_items, config.subspaces) if config.reach else None
    vectors = DenseVectors(user_table, item_table, config.constraint, reach, config.mainstream)
    check_finite(vectors)
    return vectors


def _read_fold_in(arrays: Arrays, manifest: dict[str, Any], items: slice) -> FoldInSettings | None:
    if "fold_in" not in manifest:
        return None
    settings = manifest["fold_in"]
    return FoldInSettings(arrays["fold_in_law"][items], settings["temperature"], settings["bias_correction"])


def _read_features(
    arrays: Arrays, manifest: dict[str, Any], data: Interactions, config: Training
) -> tuple[Features | None, FeatureMap | None]:
    """Return the features of the items and the map that places by them; None for both if the model has none."""
    if "features" not in manifest:
        return None, None
    fitted = {name.removeprefix(_FITTED): array for name, array in arrays.items() if name.startswith(_FITTED)}
    sources = read_sources(fitted, manifest["features"])
    features = Features(data.item_ids, arrays["features"], arrays["features_known"], sources)
    width = config.dim // config.subspaces + config.reach
    weights = _tensor(arrays, "feature_weights", config.subspaces, features.n_features + 1, width)
    return features, FeatureMap(weights, _tensor(arrays, "item_lengths", data.n_items, config.subspaces))


def _tensor(arrays: Arrays, name: str, *shape: int) -> torch.Tensor:
    """Return an array as a tensor; raise a ValueError unless it is of this shape."""
    tensor = torch.from_numpy(arrays[name])
    if tensor.dtype != torch.float32 or tensor.shape != shape:
        raise ValueError(f"{name} is {tensor.dtype} of shape {(*tensor.shape,)}, not float32 of shape {shape}")
    return tensor
