"""The index file: the bytes that the index writes itself, followed by a description of its vectors and a checksum.

    index | JSON | length of the JSON, 8 bytes | CRC-32 of all bytes before it, 8 bytes | "spherec2"

Other programs can read the file as a usearch index, because they do not look beyond its end. Files of earlier versions
end with "spherec1" and have no checksum.
"""

import glob
import json
import os
import struct
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from spherec.data.events import level_of_caller
from spherec.data.input_files import DamagedFileError, read_bytes
from spherec.data.output_files import atomic_path
from spherec.errors import DataError, UncheckedIndexWarning, quote
from spherec.geometry import Vectors

_MARK, _MARK_WITHOUT_CHECKSUM = b"spherec2", b"spherec1"
_BLOCK = 1 << 24  # bytes
_REMEDY = "build it again, with model.build_index(path) or `spherec export MODEL -o FILE.usearch`"


IndexFiles = str | PathLike[str] | Sequence[str | PathLike[str]]
"""An index file, or one for each part of the items."""


def find_index(model: str | PathLike[str]) -> Path | list[Path]:
    """Return the index next to a model file: books.usearch or, where there is none, books.0-of-4.usearch and so on."""
    whole = Path(model).with_suffix(".usearch")
    if not whole.exists():
        for first in sorted(whole.parent.glob(f"{glob.escape(whole.stem)}.0-of-*.usearch")):
            n = first.stem.rpartition("-")[2]
            parts = [first.with_name(f"{whole.stem}.{j}-of-{n}.usearch") for j in range(int(n) if n.isdecimal() else 0)]
            if parts and all(part.exists() for part in parts):
                return parts
    return whole


def write_index(path: str | PathLike[str], save: Callable[[Path], object], vectors: Vectors, config: Any) -> None:
    """Write an index atomically: `save` writes its bytes to a path, and description and checksum are added."""
    with atomic_path(path) as temporary:
        try:
            save(temporary)
        except RuntimeError as error:  # usearch has no other for a full disk
            raise OSError(str(error)) from None
        text = json.dumps({"vectors": _describe(vectors), "config": asdict(config)}).encode()
        end = text + struct.pack("<Q", len(text))
        with open(temporary, "rb+") as file:
            checksum = 0
            while block := file.read(_BLOCK):
                checksum = zlib.crc32(block, checksum)
            file.write(end + struct.pack("<Q", zlib.crc32(end, checksum)) + _MARK)


def read_index(
    path: str | PathLike[str], vectors: Vectors, *, mmap: bool = False, verify: bool = True
) -> tuple[dict[str, Any], NDArray[np.uint8]]:
    """Return the config of the index in a file and its bytes; raise a `DataError` unless it is that of these vectors.

    Args:
        path: The file.
        vectors: The vectors that the index was built from.
        mmap: Map the bytes from the file instead of reading them into memory.
        verify: Compare the bytes with their checksum.
    """
    if not Path(path).is_file():
        raise DataError(f"cannot read {path}: there is no such file; {_REMEDY}")
    try:
        with damage(path), open(path, "rb") as file:
            begin, size, has_checksum = _find_description(file)
            content = read_bytes(file, 0, os.fstat(file.fileno()).st_size, mmap=mmap)
            if has_checksum and verify and _checksum(content[:-16]) != int.from_bytes(content[-16:-8], "little"):
                raise ValueError("its checksum is wrong")
            description = json.loads(content[begin : begin + size].tobytes())
            config, there = dict(description["config"]), dict(description["vectors"])
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; check the path") from None
    here = _describe(vectors)
    differs = [name for name in here if there.get(name) != here[name]]
    if differs:
        name = differs[0]
        raise DataError(
            f"{path} is the index of other vectors: {name} {quote(there.get(name))}, "
            f"of this model {quote(here[name])}; {_REMEDY}"
        )
    if not has_checksum:
        warnings.warn(
            f"{path} was written by an earlier version and has no checksum, so damage in it is not noticed; {_REMEDY}",
            UncheckedIndexWarning,
            stacklevel=level_of_caller(),
        )
    return config, content[:begin]


@contextmanager
def damage(path: str | PathLike[str]) -> Iterator[None]:
    """Raise a `DataError` for whatever goes wrong with the content of a file in this block."""
    try:
        yield
    except (DamagedFileError, ValueError, KeyError, TypeError, RuntimeError, MemoryError, OverflowError) as error:
        raise DataError(f"{path} is damaged or no index of spherec ({error}); {_REMEDY}") from None


def _find_description(file: BinaryIO) -> tuple[int, int, bool]:
    """Return where the description begins, how long it is, and whether the file has a checksum."""
    size = os.fstat(file.fileno()).st_size
    file.seek(max(size - 24, 0))
    tail = file.read()
    has_checksum = tail[-8:] == _MARK
    end = 24 if has_checksum else 16
    if len(tail) < 24 or tail[-8:] not in (_MARK, _MARK_WITHOUT_CHECKSUM):
        raise ValueError("its end is missing")
    (length,) = struct.unpack("<Q", tail[24 - end : 32 - end])
    if length > size - end:
        raise ValueError("its end is damaged")
    return size - end - length, length, has_checksum


def _checksum(content: NDArray[np.uint8]) -> int:
    return zlib.crc32(content.data)


def _describe(vectors: Vectors) -> dict[str, Any]:
    """Return what tells these vectors from others."""
    checksum = 0
    reach = () if vectors.reach is None else (vectors.reach,)
    for block in chain(vectors.item_blocks(), reach):
        checksum = zlib.crc32(np.ascontiguousarray(block.cpu().numpy()).data, checksum)
    return {
        "items": vectors.n_items,
        "dim": vectors.dim,
        "constraint": vectors.constraint,
        "checksum": f"{checksum:08x}",
    }
