"""An index as a file: what the index writes itself, and behind it which vectors it is of.

    index | JSON | length of the JSON, 8 bytes | "spherec1"

Programs that read the index by its own format do not look behind its end, so the file serves them as it is.
"""

import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from os import SEEK_END, PathLike
from pathlib import Path
from typing import Any, BinaryIO

from spherec.data.files import atomic_path, checksum
from spherec.errors import DataError
from spherec.geometry import DenseVectors

_MARK = b"spherec1"
_REMEDY = "build it again, with model.build_index(path) or `spherec export MODEL -o FILE.usearch`"


def beside(model: str | PathLike[str]) -> Path:
    """Where the index of a model file is looked for: books.spherec has it in books.usearch."""
    return Path(model).with_suffix(".usearch")


def write(path: str | PathLike[str], save: Callable[[Path], object], vectors: DenseVectors, config: Any) -> None:
    """Have `save` write the index by name, and add what it is; whole or not at all."""
    with atomic_path(path) as temporary:
        save(temporary)
        text = json.dumps({"vectors": _described(vectors), "config": asdict(config)}).encode()
        with open(temporary, "ab") as file:
            file.write(text + struct.pack("<Q", len(text)) + _MARK)


def read(path: str | PathLike[str], vectors: DenseVectors) -> dict[str, Any]:
    """The config of the index in the file; an error unless it is of these vectors."""
    if not Path(path).is_file():
        raise DataError(f"cannot read {path}: there is no such file; {_REMEDY}")
    try:
        with open(path, "rb") as file:
            content = _end(file)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; check the path") from None
    with damage(path):
        if content is None:
            raise ValueError("its end is missing")
        told = json.loads(content)
        config, of = dict(told["config"]), dict(told["vectors"])
    here = _described(vectors)
    differs = [name for name in here if of.get(name) != here[name]]
    if differs:
        name = differs[0]
        raise DataError(
            f"{path} is the index of other vectors: {name} {of.get(name)!r}, of this model {here[name]!r}; {_REMEDY}"
        )
    return config


@contextmanager
def damage(path: str | PathLike[str]) -> Iterator[None]:
    """What goes wrong with the content of a file, in one sentence."""
    try:
        yield
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        raise DataError(f"{path} is damaged or no index of spherec ({error}); {_REMEDY}") from None


def _end(file: BinaryIO) -> bytes | None:
    """What stands behind the index, None where nothing does."""
    size = file.seek(0, SEEK_END)
    file.seek(max(size - 16, 0))
    tail = file.read()
    (length,) = struct.unpack("<Q", tail[:8]) if len(tail) == 16 and tail[8:] == _MARK else (size,)
    if length > size - 16:
        return None
    file.seek(size - 16 - length)
    return file.read(length)


def _described(vectors: DenseVectors) -> dict[str, Any]:
    """What tells vectors from others."""
    items = vectors.item_table.cpu().numpy()
    return {
        "items": items.shape[0],
        "dim": items.shape[1],
        "constraint": vectors.constraint,
        "checksum": checksum(items),
    }
