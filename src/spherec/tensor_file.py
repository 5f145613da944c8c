"""Named arrays and a manifest in one safetensors file that any safetensors reader opens: no pickle, memory-mapped.

The manifest is JSON in the file's metadata. A checksum next to it covers the manifest and all arrays; the manifest
lists each array with its type and shape. The first array begins at a multiple of 64 bytes, where arithmetic is fastest.
"""

import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from spherec.data.files import (
    DamagedFileError,
    atomic_write,
    check_kind,
    decode_manifest,
    encode_manifest,
    reading_file,
)
from spherec.errors import DataError

_MANIFEST, _CHECKSUM = "manifest", "checksum"
_ALIGNMENT = 64
_LARGEST_HEADER = 1 << 24
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
# Exceptions of safetensors, torch and JSON on damaged bytes.
_DAMAGE = (
    SafetensorError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    RuntimeError,
    MemoryError,
    OverflowError,
    RecursionError,
)


@dataclass(frozen=True)
class BlockArray:
    """An array that is written block by block, so that it need not be in memory as a whole."""

    dtype: np.dtype[Any]
    "Type of the numbers."
    shape: tuple[int, ...]
    "Shape of the whole array."
    blocks: Callable[[], Iterator[NDArray[Any]]]
    "Yields blocks of rows, in order; called once for the checksum and once for the file."


def write_tensors(
    path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any] | BlockArray], manifest: Mapping[str, Any]
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
    encoded += b" " * (-(8 + len(encoded)) % _ALIGNMENT)
    if len(encoded) > _LARGEST_HEADER:
        raise DataError(f"cannot write {path}: its manifest would take {len(encoded):,} bytes; shorten the history")
    with atomic_write(path) as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        for part in parts.values():
            for block in part.blocks():
                file.write(_bytes_of(block))


def read_tensors(
    path: str | os.PathLike[str], kind: str, version: int, *, remedy: str
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays and the manifest of a file of this `kind`, checked.

    The arrays are mapped from the file; writing to them changes them in memory only. `remedy` says in errors how to get
    an intact file.
    """
    with reading_file(path, damage=_DAMAGE, remedy=remedy) as path:
        _check_header(path)
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if _MANIFEST not in metadata:
                raise DataError(f"{path} is a safetensors file, but not made by spherec; give the right file")
            manifest = decode_manifest(metadata[_MANIFEST])
            check_kind(manifest, path, kind, version)
            names = sorted(file.keys())
            if len(names) > _MOST_ARRAYS:
                raise DamagedFileError(f"it claims {len(names):,} arrays")
            arrays = {name: file.get_tensor(name).numpy() for name in names}
        if {name: [array.dtype.name, list(array.shape)] for name, array in arrays.items()} != manifest["arrays"]:
            raise DamagedFileError("its arrays are not those that its manifest lists")
        parts = {name: _to_blocks(name, array) for name, array in arrays.items()}
        if _checksum(metadata[_MANIFEST], parts) != metadata.get(_CHECKSUM):
            raise DamagedFileError("its checksum is wrong")
        return arrays, manifest | {_CHECKSUM: metadata[_CHECKSUM]}


def is_tensor_file(path: str | os.PathLike[str]) -> bool:
    """Return whether the path is a readable file that begins like a safetensors file, intact or not."""
    if not Path(path).is_file():
        return False
    try:
        with open(path, "rb") as file:
            begin = file.read(9)
    except OSError:
        return False
    return len(begin) == 9 and begin[8:] == b"{" and int.from_bytes(begin[:8], "little") <= _LARGEST_HEADER


def _check_header(path: Path) -> None:
    """Raise an error for a file that is no safetensors, or whose header claims more than there is."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        begin = file.read(9)
    if begin[:2] == b"PK":
        raise DataError(f"{path} is an archive, such as prepared data, not a model; give the right file")
    length = int.from_bytes(begin[:8], "little")
    if len(begin) < 9 or begin[8:] != b"{" or length > _LARGEST_HEADER:
        raise DataError(f"{path} is damaged or not made by spherec: its first bytes are no header; give the right file")
    if 8 + length > size:
        raise DamagedFileError(f"it is truncated, {size:,} bytes of more than {8 + length:,}")


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
