"""A trained model as one self-contained file: vectors, ids, names, the items of each user, and how it was trained.

The file is a safetensors file that any safetensors reader opens, laid out in docs/artifact.md: named arrays, and a
manifest as JSON in its metadata. A checksum next to it covers the manifest and all arrays; the manifest lists each
array with its type and shape. There is no pickle in it. The first array begins at a multiple of 64 bytes, where
arithmetic is fastest. The file is read and written here and not by the package safetensors, which has no checksums and
writes only arrays that are in memory as a whole; tests read our files with it.
"""

import json
import math
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.data.archive import LARGEST_MANIFEST, check_kind, decode_manifest, encode_manifest
from spherec.data.features import Features, Transformation
from spherec.data.id_arrays import decode_ids, decode_names, encode_ids, encode_names
from spherec.data.ids import IdMap
from spherec.data.input_files import ALIGNMENT, DamagedFileError, describe_damage, read_bytes, reading_file
from spherec.data.interactions import Interactions
from spherec.data.output_files import atomic_write
from spherec.embedding import FeatureMap
from spherec.errors import DataError, quote
from spherec.geometry import DenseVectors, Vectors, check_finite
from spherec.losses import LOSSES
from spherec.sampling import SAMPLERS
from spherec.training import History, Trained, Training
from spherec.training.trainer import Ended

MODEL_FORMAT = "spherec-model"
MODEL_VERSION = 3
"""Newest version of the model file: with item features. A model without them is written as 2, without reach as 1."""

MIDDLE_OF_DIAL = 0.5
"""λ at which new users are placed: the mean of those in training."""

_MANIFEST, _CHECKSUM = "manifest", "checksum"
_FITTED = "transformation."  # prefix of the arrays of the features' transformation
_LEARNED = ("feature_weights", "item_lengths")  # arrays of the map that places items by their features
_MOST_ARRAYS = 1000
_TYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
}
_DTYPES = {code: np.dtype(name).newbyteorder("<") for name, code in _TYPES.items()}
_DAMAGE = (Exception,)  # of NumPy and JSON on forged bytes


@dataclass(frozen=True)
class BlockArray:
    """An array that is written block by block, so that it need not be in memory as a whole."""

    dtype: np.dtype[Any]
    "Type of the numbers."
    shape: tuple[int, ...]
    "Shape of the whole array."
    blocks: Callable[[], Iterator[NDArray[Any]]]
    "Yields blocks of rows, in order; called once for the checksum and once for the file."


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
    "The users and items with their ids and names, and the items that each user had when the model was trained."
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

    @classmethod
    def of(cls, trained: Trained, data: Interactions, features: Features | None = None) -> "Artifact":
        """Return the content of the file for a run on `data`, with `features` of its items."""
        vectors, learned = trained.vectors.to(torch.device("cpu")), trained.feature_map
        if learned is not None:
            learned = FeatureMap(learned.weights.cpu(), learned.lengths.cpu())
        return cls(
            vectors, data, trained.config, trained.history, trained.ended, features=features, feature_map=learned
        )

    @property
    def fold_in(self) -> FoldInSettings:
        """Settings of fold-in: those in the file, or those of the loss and the sampler."""
        return self.stored_fold_in or FoldInSettings.of(self.config, self.data)

    @cached_property
    def placed_items(self) -> NDArray[np.bool_]:
        """(I,) False for items that are still where they began: nobody has them, and they have no features."""
        has_users: NDArray[np.bool_] = self.data.users_per_item > 0
        return has_users if self.features is None else has_users | self.features.known

    @property
    def version(self) -> int:
        """Version of the file that it is written as."""
        if self.features is not None:
            return MODEL_VERSION
        return 1 if self.vectors.item_reach is None else 2

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model atomically. The same model gives the same bytes."""
        data, vectors, config = self.data, self.vectors, self.config
        check_finite(vectors)
        arrays: dict[str, NDArray[Any] | BlockArray] = {
            "item_vectors": _blocks_of(vectors, "item"),  # (I, D) first, where it is aligned best
            "user_vectors": _blocks_of(vectors, "user"),  # (U, D)
            "indptr": data.indptr,
            "indices": data.indices,
        }
        if vectors.item_reach is not None:
            arrays["item_reach"] = vectors.item_reach.numpy()  # (I, P)
        arrays |= encode_ids(data.user_ids, "user_ids")
        arrays |= encode_ids(data.item_ids, "item_ids")
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
            arrays |= {
                "features": self.features.matrix,  # (I, F)
                "features_known": self.features.known,  # (I,)
                "feature_weights": self.feature_map.weights.numpy(),  # (P, F + 1, d)
                "item_lengths": self.feature_map.lengths.numpy(),  # (I, P)
            }
            arrays |= {f"{_FITTED}{name}": array for name, array in fitted.items()}
        write_tensors(path, arrays, manifest)

    @classmethod
    def load(cls, path: str | PathLike[str], *, mmap: bool = False) -> "Artifact":
        """Read a file that `save` wrote; `mmap` maps the vectors from the file instead of reading them into memory."""
        arrays, manifest = read_tensors(path, MODEL_FORMAT, MODEL_VERSION, oldest=1, remedy="train it again", mmap=mmap)
        try:
            data = Interactions(
                indptr=arrays["indptr"],
                indices=arrays["indices"],
                user_ids=IdMap(decode_ids(arrays, "user_ids")),
                item_ids=IdMap(decode_ids(arrays, "item_ids")),
                item_names=decode_names(arrays, "item_names"),
            )
            config = Training.from_dict(manifest["config"])
            users, items = (torch.from_numpy(arrays[name]) for name in ("user_vectors", "item_vectors"))
            if config.reach != ("item_reach" in arrays):
                raise ValueError("it has an item_reach without reach, or the other way round")
            reach = torch.from_numpy(arrays["item_reach"]) if config.reach else None
            if reach is not None and reach.shape != (len(items), config.subspaces):
                raise ValueError(f"item_reach is of shape {(*reach.shape,)}")
            vectors = DenseVectors(users, items, config.constraint, reach, config.mainstream)
            check_finite(vectors)
            if (vectors.n_users, vectors.n_items, vectors.dim) != (data.n_users, data.n_items, config.dim):
                raise ValueError(f"{(*users.shape,)} and {(*items.shape,)} vectors for {data}")
            if manifest["ended"] not in get_args(Ended):
                raise ValueError(f"it ended with {quote(manifest['ended'])}")
            history = History.from_records(manifest["history"])
            fold_in = _read_fold_in(arrays, manifest, data.n_items)
            features, learned = _read_features(arrays, manifest, data, config)
            ended, checked = manifest["ended"], manifest["checksum"]
            return cls(vectors, data, config, history, ended, checked, fold_in, features, learned)
        except Exception as error:  # whatever forged content raises
            raise DataError(f"{path} is damaged ({describe_damage(error)}); train it again") from None


def estimate_model(data: Interactions, config: Training, features: Features | None = None) -> int:
    """Return about how many bytes the file of a model of this data takes."""
    rows = data.n_users + data.n_items
    reach = 4 * config.subspaces if config.reach else 0
    content = 0 if features is None else features.matrix.nbytes + 4 * features.n_features * config.dim
    pairs = data.indptr.nbytes + 4 * data.n_pairs
    return rows * (4 * config.dim + 24) + data.n_items * reach + pairs + content + 10_000


def _blocks_of(vectors: Vectors, role: str) -> BlockArray:
    """Return the user or item vectors for the file."""

    def blocks() -> Iterator[NDArray[Any]]:
        rows: Iterator[Tensor] = vectors.item_blocks() if role == "item" else vectors.user_blocks()
        return (block.cpu().numpy() for block in rows)

    count = vectors.n_items if role == "item" else vectors.n_users
    return BlockArray(np.dtype(np.float32), (count, vectors.dim), blocks)


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


def write_tensors(
    path: str | PathLike[str], arrays: Mapping[str, NDArray[Any] | BlockArray], manifest: Mapping[str, Any]
) -> None:
    """Write `arrays`, in this order, and the JSON-able `manifest` atomically; equal content gives equal bytes."""
    parts = {name: _to_blocks(name, array) for name, array in arrays.items()}
    text = encode_manifest(manifest, arrays={name: [part.dtype.name, list(part.shape)] for name, part in parts.items()})
    header: dict[str, Any] = {"__metadata__": {_MANIFEST: text, _CHECKSUM: _checksum(text, parts)}}
    end = 0
    for name, part in parts.items():
        begin, end = end, end + int(np.prod(part.shape)) * part.dtype.itemsize
        header[name] = {"dtype": _TYPES[part.dtype.name], "shape": part.shape, "data_offsets": [begin, end]}
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-(8 + len(encoded)) % ALIGNMENT)
    if len(encoded) > LARGEST_MANIFEST:
        raise DataError(f"cannot write {path}: its manifest would take {len(encoded):,} bytes; shorten the history")
    with atomic_write(path) as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        for part in parts.values():
            for block in part.blocks():
                file.write(_bytes_of(block))


def read_tensors(
    path: str | PathLike[str], kind: str, version: int, *, oldest: int | None = None, remedy: str, mmap: bool = False
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays and the manifest of a file of this `kind`, checked; of `version`, or of one since `oldest`.

    Writing to the arrays changes them in memory only. `remedy` says in errors how to get an intact file. `mmap` maps
    the arrays from the file, which must then be replaced atomically, never overwritten.
    """
    with reading_file(path, damage=_DAMAGE, remedy=remedy) as path, open(path, "rb") as file:
        header, begin = _read_header(path, file)
        metadata = header.pop("__metadata__", {})
        if _MANIFEST not in metadata:
            raise DataError(f"{path} is a safetensors file, but not made by spherec; give the right file")
        manifest = decode_manifest(metadata[_MANIFEST])
        check_kind(manifest, path, kind, version, oldest=oldest)
        if len(header) > _MOST_ARRAYS:
            raise DamagedFileError(f"it claims {len(header):,} arrays")
        size = os.fstat(file.fileno()).st_size - begin
        arrays = _cut_arrays(header, read_bytes(file, begin, size, mmap=mmap), size)
        if {name: [array.dtype.name, list(array.shape)] for name, array in arrays.items()} != manifest["arrays"]:
            raise DamagedFileError("its arrays are not those that its manifest lists")
        parts = {name: _to_blocks(name, array) for name, array in arrays.items()}
        if _checksum(metadata[_MANIFEST], parts) != metadata.get(_CHECKSUM):
            raise DamagedFileError("its checksum is wrong")
        return arrays, manifest | {_CHECKSUM: metadata[_CHECKSUM]}


def _read_header(path: Path, file: BinaryIO) -> tuple[dict[str, Any], int]:
    """Return the header of a safetensors file, and where its numbers begin."""
    size = os.fstat(file.fileno()).st_size
    begin = file.read(9)
    if begin[:2] == b"PK":
        raise DataError(f"{path} is an archive, such as prepared data, not a model; give the right file")
    length = int.from_bytes(begin[:8], "little")
    if len(begin) < 9 or begin[8:] != b"{" or length > LARGEST_MANIFEST:
        raise DataError(f"{path} is damaged or not made by spherec: its first bytes are no header; give the right file")
    if 8 + length > size:
        raise DamagedFileError(f"it is truncated, {size:,} bytes of more than {8 + length:,}")
    header = json.loads(b"{" + file.read(length - 1))
    last = max((part["data_offsets"][1] for name, part in header.items() if name != "__metadata__"), default=0)
    if size != 8 + length + last:
        raise DamagedFileError(f"it has {size:,} bytes instead of {8 + length + last:,}")
    return header, 8 + length


def _cut_arrays(header: Mapping[str, Any], content: NDArray[np.uint8], size: int) -> dict[str, NDArray[Any]]:
    """Return the arrays that the header describes, as views of the content, which they must cover without a gap."""
    arrays, end = {}, 0
    for name, part in sorted(header.items(), key=lambda entry: entry[1]["data_offsets"]):
        dtype, shape, (begin, next_) = _DTYPES[part["dtype"]], part["shape"], part["data_offsets"]
        if not all(type(number) is int and number >= 0 for number in (*shape, begin, next_)):
            raise DamagedFileError(f"{name} has no valid shape")
        if begin != end or next_ - begin != math.prod(shape) * dtype.itemsize:
            raise DamagedFileError(f"{name} does not lie where it should")
        arrays[name] = content[begin:next_].view(dtype).reshape(shape)
        end = next_
    if end != size:
        raise DamagedFileError("its arrays do not cover it")
    return {name: arrays[name] for name in sorted(arrays)}


def _checksum(text: str, parts: Mapping[str, BlockArray]) -> str:
    """Return the checksum of the manifest and the arrays' bytes, in the order of their names, as eight digits."""
    value = zlib.crc32(text.encode())
    for name in sorted(parts):
        for block in parts[name].blocks():
            value = zlib.crc32(_bytes_of(block), value)
    return f"{value:08x}"


def _bytes_of(block: NDArray[Any]) -> memoryview:
    """Return the numbers as the file holds them: contiguous, the lowest byte first."""
    plain = np.ascontiguousarray(block, dtype=block.dtype.newbyteorder("<"))
    return plain.reshape(-1).view(np.uint8).data


def _to_blocks(name: str, array: NDArray[Any] | BlockArray) -> BlockArray:
    if array.dtype.name not in _TYPES:
        raise DataError(f"{name} of type {array.dtype.name} cannot be saved; use numbers of at most 64 bits")
    if isinstance(array, BlockArray):
        return array
    return BlockArray(array.dtype, array.shape, lambda: iter([array]))
