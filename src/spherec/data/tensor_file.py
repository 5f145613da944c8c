"""The container of model files: a safetensors file with a manifest and a checksum.

Any safetensors reader opens it: named arrays, and a manifest as JSON in its metadata, which lists each array with its
type and shape. A checksum next to it covers the manifest and all arrays. There is no pickle in it. The first array
begins at a multiple of 64 bytes, where arithmetic is fastest. It is read and written here and not by the package
safetensors, which has no checksums; tests read our files with it.
"""

import json
import math
import os
import zlib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from spherec.data.archive import LARGEST_MANIFEST, check_kind, decode_manifest, encode_manifest
from spherec.data.input_files import ALIGNMENT, DamagedFileError, read_bytes, reading_file
from spherec.data.output_files import atomic_write
from spherec.errors import DataError

_MANIFEST, _CHECKSUM = "manifest", "checksum"
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


def write_tensors(path: str | PathLike[str], arrays: Mapping[str, NDArray[Any]], manifest: Mapping[str, Any]) -> str:
    """Write `arrays`, in this order, and the JSON-able `manifest` atomically; return the checksum.

    Equal content gives equal bytes.
    """
    for name, array in arrays.items():
        if array.dtype.name not in _TYPES:
            raise DataError(f"{name} of type {array.dtype.name} cannot be saved; use numbers of at most 64 bits")
    text = encode_manifest(
        manifest, arrays={name: [array.dtype.name, list(array.shape)] for name, array in arrays.items()}
    )
    checksum = _checksum(text, arrays)
    header: dict[str, Any] = {"__metadata__": {_MANIFEST: text, _CHECKSUM: checksum}}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": _TYPES[array.dtype.name], "shape": array.shape, "data_offsets": [begin, end]}
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-(8 + len(encoded)) % ALIGNMENT)
    if len(encoded) > LARGEST_MANIFEST:
        raise DataError(f"cannot write {path}: its manifest would take {len(encoded):,} bytes; shorten the history")
    with atomic_write(path) as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        for array in arrays.values():
            file.write(_bytes_of(array))
    return checksum


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
        if _checksum(metadata[_MANIFEST], arrays) != metadata.get(_CHECKSUM):
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


def _checksum(text: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the checksum of the manifest and the arrays' bytes, in the order of their names, as eight digits."""
    value = zlib.crc32(text.encode())
    for name in sorted(arrays):
        value = zlib.crc32(_bytes_of(arrays[name]), value)
    return f"{value:08x}"


def _bytes_of(array: NDArray[Any]) -> memoryview:
    """Return the numbers as the file holds them: contiguous, the lowest byte first."""
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return plain.reshape(-1).view(np.uint8).data
