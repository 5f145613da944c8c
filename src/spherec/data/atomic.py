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
    target = Path(path)
    if target.is_dir():
        raise DataError(f"{target} is a folder; name a file to write")
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror}; choose another place") from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o666 & ~_umask())  # mkstemp makes it private
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder that takes its name only when the block ends without an error. It must not exist yet."""
    target = Path(path)
    if target.exists():
        raise DataError(f"{target} exists already; remove it, or name another folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part"))
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror}; choose another place") from None
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        temporary.replace(target)
    except BaseException:
        shutil.rmtree(temporary)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
