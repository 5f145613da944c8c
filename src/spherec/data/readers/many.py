"""Several files as one: a folder, a pattern such as `part-*.csv`, or a list of paths."""

import glob
import os
import re
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path

from spherec.data.archive import is_partitioned
from spherec.data.input_files import find_kind
from spherec.errors import ArgumentError, DataError, quote

Paths = str | PathLike[str] | Iterable[str | PathLike[str]]
"""A file, a folder, a pattern, or several of these."""

_SHOWN = 3  # files named in a message


def list_files(paths: Paths) -> list[Path]:
    """Return the files that paths stand for.

    A folder stands for the files in it, and a pattern with * ? [ for those that match, both by name, with numbers in
    their order: part-2 before part-10. Hidden files, those that begin with an underscore (markers of other programs)
    and folders inside a folder are left out. A list keeps its order. A path that exists is never a pattern. The folder
    of a partitioned data set stands for itself.
    """
    if isinstance(paths, str | PathLike):
        return _expand(paths)
    if not isinstance(paths, Iterable) or hasattr(paths, "decode"):  # bytes
        raise ArgumentError(f"a path must be text, a Path, or a list of them, got {quote(paths)}")
    files = [file for path in paths for file in _expand(path)]
    if not files:
        raise ArgumentError("the list of files is empty; name at least one")
    seen: set[str] = set()
    for file in files:
        if (real := os.path.realpath(file)) in seen:
            raise ArgumentError(f"{file} is given twice; name each file once")
        seen.add(real)
    return files


def describe_files(files: Sequence[Path]) -> str:
    """Return the name of the file, or the first of several and their number, for messages."""
    return str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1:,} more"


def is_one_file(paths: Paths) -> bool:
    """Return whether this is the path of one file, existing or not, and neither a folder nor a pattern nor a list."""
    return isinstance(paths, str | PathLike) and find_kind(paths) != "folder" and not _is_pattern(paths)


def _expand(path: str | PathLike[str]) -> list[Path]:
    if not isinstance(path, str | PathLike):
        raise ArgumentError(f"a path must be text or a Path, got {quote(path)}")
    if _is_pattern(path):
        found = [Path(name) for name in glob.glob(os.fspath(path), recursive=True)]
        files = [file for file in found if find_kind(file) != "folder"]
        if not files:
            raise DataError(f"{path} does not exist, and no file matches it; check the path")
        return sorted(files, key=_by_number)
    if find_kind(path) != "folder" or is_partitioned(path):
        return [Path(path)]
    try:
        inside = [file for file in Path(path).iterdir() if not file.name.startswith((".", "_"))]
    except OSError as error:
        raise DataError(f"cannot read the folder {path}: {error.strerror or error}; check the path") from None
    files = sorted((file for file in inside if find_kind(file) != "folder"), key=_by_number)
    if not files:
        folders = "only folders" if inside else "no files"
        raise DataError(f"{path} is a folder with {folders} in it; name the files, or a pattern such as '{path}/*/*'")
    return files


def _is_pattern(path: str | PathLike[str]) -> bool:
    return glob.has_magic(os.fspath(path)) and find_kind(path) == "nothing"


def _by_number(file: Path) -> list[tuple[int, int, str]]:
    """Return a key that sorts part-2 before part-10."""
    words = re.split(r"(\d+)", str(file))
    return [(1, int(word), word) if word.isdecimal() else (0, 0, word) for word in words]
