"""Input files: what is at a path, their text or bytes, and one error for every way in which reading fails."""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from gzip import GzipFile
from io import BufferedReader
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spherec.errors import ArgumentError, DataError, SpherecError, quote, shorten

_NO_NAME = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")  # NUL and half characters
_ALIGNMENT = 64  # bytes; arithmetic is fastest where arrays begin at multiples of this


@contextmanager
def reading_file(path: str | os.PathLike[str], remedy: str) -> Iterator[Path]:
    """Yield the path of a file, and raise a `DataError` for every way in which reading it inside this block fails.

    Whatever a reader raises on damaged bytes is one of them; `remedy` says how to get an intact file.
    """
    path = Path(check_path(path))
    refuse_unreadable(path)
    try:
        yield path
    except SpherecError:
        raise
    except (OSError, MemoryError) as error:
        reason = "memory is short" if isinstance(error, MemoryError) else error.strerror or error
        raise DataError(f"cannot read {path}: {reason}; check the path, or free some memory") from None
    except Exception as error:
        raise DataError(f"{path} is damaged, or another kind of file: {describe_damage(error)}; {remedy}") from None


def check_path(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Return the path; raise an `ArgumentError` unless it can name a file."""
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or not name or _NO_NAME.search(name):
        raise ArgumentError(f"a path must be text or a Path that can name a file, not empty, got {quote(path)}")
    return path


def find_kind(path: str | os.PathLike[str]) -> Literal["file", "folder", "other", "nothing"]:
    """Return what is at a path: a regular file, a folder, a pipe or device, or nothing that can be reached."""
    try:
        mode = Path(check_path(path)).stat().st_mode
    except OSError:  # also a name that is too long, and links in a circle
        return "nothing"
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"


def refuse_unreadable(path: str | os.PathLike[str]) -> None:
    """Raise a `DataError` for a path that is not a readable file."""
    kind = find_kind(path)
    if kind in ("folder", "other"):
        remedy = "folder; name the file in it" if kind == "folder" else "pipe or a device; write it to a file first"
        raise DataError(f"cannot read {path}: it is a {remedy}")
    try:
        open(path, "rb").close()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; check the path") from None


def read_text_file(path: str | os.PathLike[str]) -> str:
    """Return the content of a text file in UTF-8, without a byte order mark."""
    with reading_file(path, "save it as text in UTF-8") as path:
        return path.read_bytes().decode("utf-8-sig")


def read_bytes(file: BufferedReader | GzipFile, begin: int, size: int, *, mmap: bool = False) -> NDArray[np.uint8]:
    """Return `size` bytes of an open file from `begin` on; writing to them does not change the file.

    They are read into memory, where nothing that happens to the file reaches them, and begin at a multiple of 64 bytes.
    Mapped bytes are only as good as the file: where it is overwritten they change, and where it is truncated, reading
    them ends the process.
    """
    if mmap and size:
        return np.memmap(file, dtype=np.uint8, mode="c", offset=begin, shape=(size,)).view(np.ndarray)
    room = np.empty(size + _ALIGNMENT, dtype=np.uint8)
    content = room[-room.ctypes.data % _ALIGNMENT :][:size]
    file.seek(begin)
    if file.readinto(content.data) != size:
        raise ValueError("it is truncated")
    return content


def describe_damage(error: Exception) -> str:
    """Return in a few words what is wrong with the content of a file, for a message."""
    missing = isinstance(error, KeyError) and len(error.args) == 1
    return shorten(f"{error.args[0]} is missing" if missing else str(error) or type(error).__name__)
