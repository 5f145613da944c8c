"""The index file: the bytes that the index writes itself, followed by a description of its vectors.

    index | JSON | length of the JSON, 8 bytes | "spherec1"

Other programs can read the file as a usearch index, because they do not look beyond its end.
"""

import json
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from os import SEEK_END, PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from spherec.data.files import atomic_path
from spherec.errors import DataError, quote
from spherec.geometry import Vectors

_MARK = b"spherec1"
_REMEDY = "build it again, with model.build_index(path) or `spherec export MODEL -o FILE.usearch`"


def index_path(model: str | PathLike[str]) -> Path:
    """Return the path of the index of a model file: books.usearch for books.spherec."""
    return Path(model).with_suffix(".usearch")


def write_index(path: str | PathLike[str], save: Callable[[Path], object], vectors: Vectors, config: Any) -> None:
    """Write an index atomically: `save` writes its bytes to a path, and the description is added."""
    with atomic_path(path) as temporary:
        save(temporary)
        text = json.dumps({"vectors": _describe(vectors), "config": asdict(config)}).encode()
        with open(temporary, "ab") as file:
            file.write(text + struct.pack("<Q", len(text)) + _MARK)


def read_index(path: str | PathLike[str], vectors: Vectors) -> dict[str, Any]:
    """Return the config of the index in a file; raise a `DataError` unless it is the index of these vectors."""
    if not Path(path).is_file():
        raise DataError(f"cannot read {path}: there is no such file; {_REMEDY}")
    try:
        with open(path, "rb") as file:
            content = _read_end(file)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; check the path") from None
    with damage(path):
        if content is None:
            raise ValueError("its end is missing")
        description = json.loads(content)
        config, there = dict(description["config"]), dict(description["vectors"])
    here = _describe(vectors)
    differs = [name for name in here if there.get(name) != here[name]]
    if differs:
        name = differs[0]
        raise DataError(
            f"{path} is the index of other vectors: {name} {quote(there.get(name))}, "
            f"of this model {quote(here[name])}; {_REMEDY}"
        )
    return config


@contextmanager
def damage(path: str | PathLike[str]) -> Iterator[None]:
    """Raise a `DataError` for whatever goes wrong with the content of a file in this block."""
    try:
        yield
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        raise DataError(f"{path} is damaged or no index of spherec ({error}); {_REMEDY}") from None


def _read_end(file: BinaryIO) -> bytes | None:
    """Return the description after the index, None if there is none."""
    size = file.seek(0, SEEK_END)
    file.seek(max(size - 16, 0))
    tail = file.read()
    (length,) = struct.unpack("<Q", tail[:8]) if len(tail) == 16 and tail[8:] == _MARK else (size,)
    if length > size - 16:
        return None
    file.seek(size - 16 - length)
    return file.read(length)


def _describe(vectors: Vectors) -> dict[str, Any]:
    """Return what tells these vectors from others."""
    checksum = 0
    for block in vectors.item_blocks():
        checksum = zlib.crc32(np.ascontiguousarray(block.cpu().numpy()).data, checksum)
    return {
        "items": vectors.n_items,
        "dim": vectors.dim,
        "constraint": vectors.constraint,
        "checksum": f"{checksum:08x}",
    }
