"""An index as a file: what the index writes itself, and behind it which vectors it is of.

    index | JSON | length of the JSON, 8 bytes | "spherec1"

Programs that read the index by its own format do not look behind its end, so the file serves them as it is.
"""

import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherec.data.archive import checksum
from spherec.data.atomic import atomic_path
from spherec.errors import DataError
from spherec.geometry import Vectors

_MARK = b"spherec1"
_REMEDY = "build it again: spherec export MODEL --format usearch"


def beside(model: str | PathLike[str]) -> Path:
    """Where the index of a model file is looked for: books.spherec has it in books.usearch."""
    return Path(model).with_suffix(".usearch")


def write(path: str | PathLike[str], save: Callable[[Path], object], vectors: Vectors, config: Any) -> None:
    """Have `save` write the index by name, and add what it is; whole or not at all."""
    with atomic_path(path) as temporary:
        save(temporary)
        text = json.dumps({"vectors": _described(vectors), "config": asdict(config)}).encode()
        with open(temporary, "ab") as file:
            file.write(text + struct.pack("<Q", len(text)) + _MARK)


def read(path: str | PathLike[str], vectors: Vectors) -> tuple[dict[str, Any], NDArray[np.uint8]]:
    """The config, and the index itself, mapped from the file; an error unless it is of these vectors."""
    if not Path(path).is_file():
        raise DataError(f"cannot read {path}: there is no such file; {_REMEDY}")
    try:
        content: NDArray[np.uint8] = np.memmap(path, dtype=np.uint8, mode="r")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; check the path") from None
    except ValueError:  # nothing can be mapped of an empty file
        content = np.zeros(0, dtype=np.uint8)
    with damage(path):
        end = len(content) - 16
        if end < 0 or content[end + 8 :].tobytes() != _MARK:
            raise ValueError("its end is missing")
        (length,) = struct.unpack("<Q", content[end : end + 8].tobytes())
        if length > end:
            raise ValueError("its end is wrong")
        told = json.loads(content[end - length : end].tobytes())
        config, of = dict(told["config"]), dict(told["vectors"])
    here = _described(vectors)
    differs = [name for name in here if of.get(name) != here[name]]
    if differs:
        name = differs[0]
        raise DataError(
            f"{path} is the index of other vectors: {name} {of.get(name)!r}, of this model {here[name]!r}; {_REMEDY}"
        )
    return config, content[: end - length]


@contextmanager
def damage(path: str | PathLike[str]) -> Iterator[None]:
    """What goes wrong with the content of a file, in one sentence."""
    try:
        yield
    except (ValueError, KeyError, TypeError, RuntimeError, struct.error) as error:
        raise DataError(f"{path} is damaged or no index of spherec ({error}); {_REMEDY}") from None


def _described(vectors: Vectors) -> dict[str, Any]:
    """What tells vectors from others."""
    items = vectors.item_table.cpu().numpy()
    return {
        "items": items.shape[0],
        "dim": items.shape[1],
        "constraint": vectors.constraint,
        "checksum": checksum(items),
    }
