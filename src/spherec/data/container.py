"""The container of all files of spherec: a safetensors file with a manifest and a checksum.

Any safetensors reader opens it: named arrays, and in its metadata a manifest as JSON, which has the kind of the file
(`format`), the `version` of the format, and what its writer adds. The checksum next to it covers the manifest, the
header and all numbers, so that every changed byte is noticed. There is no pickle in it. It may be gzipped as a whole.

The package safetensors opens a file again by its name to map it, and copies arrays. Here a file that is replaced while
it is read stays the old one, and arrays begin at multiples of 64 bytes. Tests read our files with that package.
"""

import gzip
import json
import os
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from io import BufferedReader
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherec.data.input_files import describe_damage, find_kind, read_bytes, reading_file
from spherec.data.output_files import atomic_write, remove_matching
from spherec.errors import DataError, quote

VERSION = 1
"""Version of the format, of all kinds of files."""

GUESTS = {
    "spherec-model-shard": "spherec.distributed.shards",
    "spherec-partitions": "spherec.distributed.partitions",
}
"""Kinds of files that the core does not read itself: each with the module that does, imported when one is met."""

PARTITIONS = "partitions.safetensors"
"""The file by which the folder of a partitioned data set is known."""

Arrays = dict[str, NDArray[Any]]
Facts = Mapping[str, Any]

_ALIGNMENT = 64  # bytes
_LARGEST_HEADER = 1 << 24  # bytes; a file that claims more is damaged
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1"}
_DTYPES |= {"U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1"}
_LARGEST_RATIO = 1100  # of the sizes of a file and its gzipped form
_CODES = {np.dtype(name): code for code, name in _DTYPES.items()}


def write_container(
    path: str | PathLike[str], kind: str, arrays: Mapping[str, NDArray[Any]], facts: Facts, *, mode: int = 0o666
) -> None:
    """Write arrays, in this order, and JSON-able facts atomically; for `mode` see `atomic_path`."""
    content, _ = encode_container(kind, arrays, facts)
    with atomic_write(path, mode=mode) as file:
        file.writelines(content)


def encode_container(
    kind: str, arrays: Mapping[str, NDArray[Any]], facts: Facts
) -> tuple[Iterator[bytes | memoryview], str]:
    """Return the pieces of a file, made one after the other, and its checksum. Equal content, equal bytes."""
    header: dict[str, Any] = {}
    end = 0
    for name, array in arrays.items():
        code = _CODES.get(array.dtype.newbyteorder("<"))
        if code is None:
            raise DataError(f"{name} of type {array.dtype} cannot be saved; use numbers of at most 64 bits")
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [begin, end]}
    manifest = json.dumps({**facts, "format": kind, "version": VERSION}, sort_keys=True)
    value = _begin_checksum(manifest, header)
    for array in arrays.values():
        value = zlib.crc32(_bytes_of(array), value)
    metadata = {"manifest": manifest, "checksum": f"{value:08x}"}
    encoded = json.dumps({"__metadata__": metadata, **header}, separators=(",", ":")).encode()
    encoded += b" " * (-(8 + len(encoded)) % _ALIGNMENT)
    head = len(encoded).to_bytes(8, "little") + encoded
    return chain((head,), map(_bytes_of, arrays.values())), metadata["checksum"]


def read_container(
    path: str | PathLike[str], kind: str, *, remedy: str, mmap: bool = False
) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays of a file of this kind and its manifest, with its `checksum`, against which it is checked.

    `remedy` says how to get an intact file, for errors. With `mmap` the arrays are mapped from the file, which must be
    replaced atomically, never overwritten. In both cases, writing to the arrays changes them in memory only.
    """
    with reading_file(path, remedy) as path, _open(path) as file:
        header, text, checksum, end = _read_header(file)
        manifest = _check_kind(path, text, kind)
        entries = sorted(header.items(), key=lambda entry: entry[1]["data_offsets"])
        value, begin = _begin_checksum(text, header), end
        claimed = end + max((entry["data_offsets"][1] for _, entry in entries), default=0)
        is_packed, size = isinstance(file, gzip.GzipFile), os.fstat(file.fileno()).st_size
        if claimed > size * _LARGEST_RATIO if is_packed else claimed != size:
            raise ValueError(f"it has {size:,} bytes and says that they hold {claimed:,}")
        arrays: Arrays = {}
        for name, entry in entries:
            start, stop = (begin + offset for offset in entry["data_offsets"])
            if not start == end <= stop:
                raise ValueError(f"{name} does not lie where it should")
            content = read_bytes(file, start, stop - start, mmap=mmap and not is_packed)
            value, end = zlib.crc32(content.data, value), stop
            array = content.view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
            arrays[name] = array if array.flags.aligned else array.copy()
        if f"{value:08x}" != checksum or file.read(1):
            raise ValueError("its checksum is wrong")
        return arrays, manifest | {"checksum": checksum}


def read_manifest(path: str | PathLike[str], kind: str, *, remedy: str) -> dict[str, Any]:
    """Return the manifest alone of a file of this kind, unchecked."""
    with reading_file(path, remedy) as path, _open(path) as file:
        return _check_kind(path, _read_header(file)[1], kind)


@contextmanager
def decoding(path: str | PathLike[str], remedy: str) -> Iterator[None]:
    """Raise a `DataError` that names the file for whatever forged content raises in this block."""
    try:
        yield
    except Exception as error:
        raise DataError(f"{path} is damaged ({describe_damage(error)}); {remedy}") from None


def remove_parts(path: str | PathLike[str], keep: Collection[str] = ()) -> None:
    """Remove the files that were written as parts of this one, hidden ones, too, except those with these names."""
    remove_matching(Path(path).resolve(), r"\.\d+-of-\d+\.[0-9a-f]{8}(\.[0-9a-f]{8}\.part)?", keep)


def kind_of(path: str | PathLike[str]) -> str | None:
    """Return the kind of a file of spherec, or of the folder of a partitioned data set; None for everything else."""
    kind = find_kind(path)
    if kind == "folder" and (Path(path) / PARTITIONS).is_file():
        return "spherec-partitions"
    with suppress(Exception):
        if kind == "file":
            with _open(Path(path)) as file:
                return str(json.loads(_read_header(file)[1])["format"])
    return None


def import_guest(kind: str) -> Any:
    """Return the module that reads this kind of files."""
    return import_module(GUESTS[kind])


def checksum(*arrays: NDArray[Any]) -> str:
    """Return the CRC-32 of the arrays' bytes, one array after the other, as eight hexadecimal digits."""
    value = 0
    for array in arrays:
        value = zlib.crc32(np.ascontiguousarray(array).data, value)
    return f"{value:08x}"


@contextmanager
def _open(path: Path) -> Iterator[BufferedReader | gzip.GzipFile]:
    with open(path, "rb") as raw:
        is_packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        yield gzip.GzipFile(fileobj=raw) if is_packed else raw


def _read_header(file: BufferedReader | gzip.GzipFile) -> tuple[dict[str, Any], str, str, int]:
    """Return what the header says of each array, the manifest, the checksum, and where the numbers begin."""
    begin = file.read(9)
    length = int.from_bytes(begin[:8], "little")
    if begin[8:] != b"{" or length > _LARGEST_HEADER:
        raise ValueError("it does not begin with a header")
    text = b"{" + file.read(length - 1)
    if not text.rstrip(b" ").endswith(b"}"):
        raise ValueError("its header has other padding")
    header = json.loads(text)
    metadata = header.pop("__metadata__")
    return header, metadata["manifest"], metadata["checksum"], 8 + length


def _check_kind(path: Path, text: str, kind: str) -> dict[str, Any]:
    """Return the manifest; raise a `DataError` unless it is that of a file of this kind and of our version."""
    manifest: dict[str, Any] = json.loads(text)
    if manifest["format"] != kind:
        raise DataError(f"{path} holds {quote(manifest['format'])}, not {quote(kind)}; give the right file")
    if manifest["version"] != VERSION:
        raise DataError(
            f"{path} is of format version {quote(manifest['version'])}, this spherec reads {VERSION}; install a "
            "matching spherec"
        )
    return manifest


def _begin_checksum(manifest: str, header: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps([manifest, header], sort_keys=True).encode())


def _bytes_of(array: NDArray[Any]) -> memoryview:
    """Return the numbers as the file holds them: contiguous, the lowest byte first."""
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return plain.reshape(-1).view(np.uint8).data
