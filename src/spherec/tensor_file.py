"""Named arrays and a manifest in one safetensors file that any safetensors reader opens: no pickle, memory-mapped.

The manifest is JSON in the file's metadata. A checksum beside it covers the manifest and all arrays; the manifest names
each array with its type and shape. The first array begins at a multiple of 64 bytes, where arithmetic is fastest.
"""

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from spherec.data.files import atomic_write
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
# What safetensors, torch and JSON raise on bytes that are not what they seem.
_DAMAGE = (SafetensorError, ValueError, TypeError, KeyError, AttributeError, RuntimeError, MemoryError, OverflowError)


class _Damaged(Exception):
    """What is wrong with a file."""


def write(path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], manifest: Mapping[str, Any]) -> None:
    """Write `arrays`, in this order, and the JSON-able `manifest`; the same content always gives the same bytes."""
    plain = {name: _little_endian(name, array) for name, array in arrays.items()}
    held = {name: _described(array) for name, array in plain.items()}
    text = json.dumps({**manifest, "arrays": held}, sort_keys=True)
    metadata = {_MANIFEST: text, _CHECKSUM: _checksum(text, plain)}
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, array in plain.items():
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": _TYPES[array.dtype.name], "shape": array.shape, "data_offsets": [begin, end]}
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-(8 + len(encoded)) % _ALIGNMENT)
    if len(encoded) > _LARGEST_HEADER:
        raise DataError(f"cannot write {path}: its manifest would take {len(encoded):,} bytes; shorten the history")
    with atomic_write(path) as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        for array in plain.values():
            file.write(_bytes_of(array))


def read(
    path: str | os.PathLike[str], kind: str, version: int, *, remedy: str
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays and the manifest of a file of this `kind`, checked.

    The arrays are mapped from the file; writing to them changes them in memory alone. `remedy` is what to do about a
    damaged file.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise DataError(f"cannot read {path}: it is not a file; check the path")
    try:
        _check_header(path)
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if _MANIFEST not in metadata:
                raise DataError(f"{path} is a safetensors file, but not made by spherec; give the right file")
            manifest = _parsed(metadata[_MANIFEST])
            _check_kind(manifest, path, kind, version)
            names = sorted(file.keys())
            if len(names) > _MOST_ARRAYS:
                raise _Damaged(f"it claims {len(names):,} arrays")
            arrays = {name: file.get_tensor(name).numpy() for name in names}
        if {name: _described(array) for name, array in arrays.items()} != manifest["arrays"]:
            raise _Damaged("its arrays are not those that its manifest lists")
        if _checksum(metadata[_MANIFEST], arrays) != metadata.get(_CHECKSUM):
            raise _Damaged("its checksum is wrong")
        return arrays, manifest | {_CHECKSUM: metadata[_CHECKSUM]}
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(f"cannot read {path}: there is no such file; check the path") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; check the path") from None
    except _Damaged as damage:
        raise DataError(f"{path} is damaged: {damage}; {remedy}") from None
    except (*_DAMAGE, RecursionError) as error:
        raise DataError(f"{path} is damaged or truncated ({_short(error)}); {remedy}") from None


def is_tensor_file(path: str | os.PathLike[str]) -> bool:
    """Whether the path is a file that begins like one of these, whole or not."""
    if not Path(path).is_file():
        return False
    with open(path, "rb") as file:
        begin = file.read(9)
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
        raise _Damaged(f"it is truncated, {size:,} bytes of more than {8 + length:,}")


def _parsed(text: str) -> dict[str, Any]:
    manifest = json.loads(text)
    if not isinstance(manifest, dict):
        raise _Damaged("its manifest is not a table")
    return manifest


def _check_kind(manifest: dict[str, Any], path: Path, kind: str, version: int) -> None:
    if manifest.get("format") != kind:
        raise DataError(f"{path} holds {_short(manifest.get('format'))}, not {kind!r}; give the right file")
    found = manifest.get("version")
    if found != version:
        newer = isinstance(found, int) and found > version
        remedy = "install a newer spherec" if newer else "install a matching spherec"
        raise DataError(f"{path} is of format version {_short(found)}, this spherec reads {version}; {remedy}")


def _checksum(text: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    """Of the manifest and the arrays' bytes, in the order of their names, as eight digits."""
    value = zlib.crc32(text.encode())
    for name in sorted(arrays):
        value = zlib.crc32(_bytes_of(arrays[name]), value)
    return f"{value:08x}"


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _described(array: NDArray[Any]) -> list[Any]:
    return [array.dtype.name, list(array.shape)]


def _little_endian(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """The array as the file holds it: contiguous, the lowest byte first."""
    if array.dtype.name not in _TYPES:
        raise DataError(f"{name} of type {array.dtype.name} cannot be saved; use numbers of at most 64 bits")
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))


def _short(what: object) -> str:
    text = what if isinstance(what, str) else str(what) if isinstance(what, Exception) else repr(what)
    return text if len(text) <= 120 else f"{text[:120]}…"
