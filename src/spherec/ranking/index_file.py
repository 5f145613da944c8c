"""The index file: the bytes that the index writes itself, followed by a description of its vectors and a checksum.

    index | JSON | length of the JSON, 8 bytes | CRC-32 of all bytes before it, 8 bytes | "spherec2"

Other programs can read the file as a usearch index, because they do not look beyond its end. The checksum shows damage,
not forgery: an index is code's input that nobody checks, so use those of people whom you trust.
"""

import glob
import json
import os
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherec.data.input_files import read_bytes, reading_file
from spherec.data.output_files import atomic_path
from spherec.errors import DataError, quote
from spherec.geometry import Vectors

_MARK = b"spherec2"
_BLOCK = 1 << 24  # bytes
REMEDY = "build it again, with model.build_index(path) or `spherec export MODEL -o FILE.usearch`"

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
    path: str | PathLike[str], vectors: Vectors, *, mmap: bool = False
) -> tuple[dict[str, Any], NDArray[np.uint8]]:
    """Return the config of the index in a file and its bytes; raise a `DataError` unless it is that of these vectors.

    With `mmap`, the bytes are mapped from the file.
    """
    with reading_file(path, REMEDY), open(path, "rb") as file:
        content = read_bytes(file, 0, os.fstat(file.fileno()).st_size, mmap=mmap)
        length, checksum, mark = struct.unpack("<QQ8s", content[-24:].tobytes())
        if mark != _MARK or zlib.crc32(content[:-16].data) != checksum:
            raise ValueError("its end is missing, or its checksum is wrong")
        end = len(content) - 24 - length
        described = json.loads(content[end:-24].tobytes())
        config, there = dict(described["config"]), dict(described["vectors"])
    here = _describe(vectors)
    for name in here:
        if there.get(name) != here[name]:
            raise DataError(
                f"{path} is the index of other vectors: {name} {quote(there.get(name))}, "
                f"of this model {quote(here[name])}; {REMEDY}"
            )
    return config, content[:end]


def _describe(vectors: Vectors) -> dict[str, Any]:
    """Return what tells these vectors from others."""
    checksum = 0
    reach = () if vectors.reach is None else (vectors.reach,)
    for block in chain(vectors.item_blocks(), reach):
        checksum = zlib.crc32(np.ascontiguousarray(block.cpu().numpy()).data, checksum)
    shape = {"items": vectors.n_items, "dim": vectors.dim, "constraint": vectors.constraint}
    return {**shape, "checksum": f"{checksum:08x}"}
