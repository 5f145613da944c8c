"""The manifest of a binary file, and the errors of files that cannot be read.

A manifest is a JSON table inside the file: what the file holds (`format`), the `version` of that format, and whatever
its writer adds. `data/archive.py` (.npz) and `tensor_file.py` (safetensors) share this module.
"""

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherec.errors import DataError

LARGEST_MANIFEST = 1 << 24
"""Bytes that a manifest may take; a file that claims more is damaged."""


class DamagedFileError(Exception):
    """A file does not hold what it declares; `reading_file` makes a `DataError` of it that names the file."""


@contextmanager
def reading_file(
    path: str | os.PathLike[str], *, damage: type[Exception] | tuple[type[Exception], ...], remedy: str
) -> Iterator[Path]:
    """Raise a `DataError` for every way in which reading a file inside this block fails.

    Args:
        path: The file; yielded as a `Path`.
        damage: The exceptions that the container's own library raises on damaged bytes.
        remedy: How to get an intact file, for the message.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise DataError(f"cannot read {path}: it is not a file; check the path")
    try:
        yield path
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(f"cannot read {path}: there is no such file; check the path") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; check the path") from None
    except DamagedFileError as error:
        raise DataError(f"{path} is damaged: {error}; {remedy}") from None
    except damage as error:
        raise DataError(f"{path} is damaged or not made by spherec ({shorten(error)}); {remedy}") from None


def encode_manifest(manifest: Mapping[str, Any], **added: object) -> str:
    """Return the manifest, with more entries, as JSON; equal manifests give equal text."""
    return json.dumps({**manifest, **added}, sort_keys=True)


def decode_manifest(text: str | bytes) -> dict[str, Any]:
    """Return the manifest that `encode_manifest` wrote."""
    manifest = json.loads(text)
    if not isinstance(manifest, dict):
        raise DamagedFileError("its manifest is not a table")
    return manifest


def check_kind(manifest: Mapping[str, Any], path: Path, kind: str, version: int) -> None:
    """Raise a `DataError` unless the file holds a `kind` of this `version`."""
    if manifest.get("format") != kind:
        raise DataError(f"{path} holds {shorten(repr(manifest.get('format')))}, not {kind!r}; give the right file")
    found = manifest.get("version")
    if found != version:
        newer = isinstance(found, int) and found > version
        remedy = "install a newer spherec" if newer else "install a matching spherec"
        raise DataError(f"{path} is of format version {shorten(found)}, this spherec reads {version}; {remedy}")


def checksum(*arrays: NDArray[Any], start: int = 0) -> str:
    """Return the CRC-32 of the arrays' bytes, one array after the other, as eight hexadecimal digits."""
    value = start
    for array in arrays:
        value = zlib.crc32(np.ascontiguousarray(array).data, value)
    return f"{value:08x}"


def shorten(thing: object) -> str:
    """Return a value as it appears in a message, cut after 120 characters; strings and errors without quotes."""
    text = str(thing) if isinstance(thing, str | Exception) else repr(thing)
    return text if len(text) <= 120 else f"{text[:120]}…"
