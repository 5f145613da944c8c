"""Output that is there whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from spherec.errors import DataError


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that takes its name only when the block ends without an error."""
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        yield file


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The same for what writes files by name: an empty file beside `path`, to be filled before the block ends."""
    refuse_unwritable(path)
    target = Path(path).resolve()  # a link stays a link
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
        temporary = Path(name)
        os.close(handle)
        yield temporary
        with open(temporary, "rb+") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o666 & ~_umask())  # mkstemp makes it private
        temporary.replace(target)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}; make room or choose another place") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder that takes its name only when the block ends without an error. It must not exist yet."""
    target = Path(path)
    refuse_taken(path)
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part"))
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        temporary.replace(target)
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror or error}; choose another place") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def refuse_taken(path: str | os.PathLike[str]) -> None:
    """Raise a `DataError` where `atomic_folder` could not make a new folder; worth a call before long work."""
    if Path(path).exists():
        raise DataError(f"{path} exists already; remove it, or name another folder")
    refuse_unwritable(path)


def refuse_unwritable(path: str | os.PathLike[str]) -> None:
    """Raise a `DataError` where `atomic_write` could not write; worth a call before long work."""
    target = Path(path)
    if target.is_dir():
        raise DataError(f"{target} is a folder; name a file to write")
    if target.exists() and not target.is_file():
        raise DataError(f"cannot write {target}: it is not a regular file; name another")
    if not target.parent.is_dir():
        raise DataError(f"cannot write {target}: the folder {target.parent} does not exist; make it first")
    if not os.access(target.parent, os.W_OK):
        raise DataError(f"cannot write {target}: no permission in {target.parent}; choose another place")


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
