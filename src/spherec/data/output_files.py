"""Output files: written atomically, by one run at a time, and refused before long work where they cannot be written."""

import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO

from filelock import FileLock, Timeout

from spherec.data.input_files import check_path
from spherec.errors import DataError, LockedOutputError, shorten

LONGEST_WRITE = 60.0
"""Seconds that a writer waits for another one of the same file."""


@contextmanager
def atomic_write(
    path: str | os.PathLike[str], *, mode: int = 0o666, part_of: str | os.PathLike[str] | None = None
) -> Iterator[IO[bytes]]:
    """Open a binary file that takes its name only when the block ends without an error; see `atomic_path`."""
    with atomic_path(path, mode=mode, part_of=part_of) as temporary, open(temporary, "wb") as file:
        yield file


@contextmanager
def atomic_path(
    path: str | os.PathLike[str], *, mode: int = 0o666, part_of: str | os.PathLike[str] | None = None
) -> Iterator[Path]:
    """Yield an empty file next to `path` that takes its name when the block ends: for writers that want a name.

    When the block has ended, the file is on disk under its name, even if power fails. The output is locked for the time
    of the block.

    Args:
        path: The output. Where it is a link, the file that it leads to is replaced.
        mode: Permissions of a new file, of which the umask may take some. One that is replaced keeps its own.
        part_of: The output of which this is a part. It is locked by the caller, and gives the part its permissions. A
            link in place of the part is replaced itself.
    """
    with _writing(path, part_of) as (target, temporary):
        old = target if part_of is None else Path(part_of)
        old_mode = stat.S_IMODE(old.stat().st_mode) if old.exists() else None
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY  # follows no link
        os.close(os.open(temporary, flags, mode if old_mode is None else 0o600))
        yield temporary
        with open(temporary, "rb+") as written:
            os.fsync(written.fileno())
        if old_mode is not None:
            temporary.chmod(old_mode)
        temporary.replace(target)


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a folder that takes the name `path` when the block ends without an error. It must not exist yet."""
    refuse_taken(path)
    with _writing(path) as (target, temporary):
        temporary.mkdir()
        yield temporary
        temporary.replace(target)


@contextmanager
def temporary_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield an empty folder next to the output `path`, for parts of it; it is removed at the end."""
    with _writing(path) as (_, temporary):
        temporary.mkdir()
        yield temporary


@contextmanager
def _writing(
    path: str | os.PathLike[str], part_of: str | os.PathLike[str] | None = None
) -> Iterator[tuple[Path, Path]]:
    """Lock an output, or a part of one; yield its path, and a new name next to it, of which nothing stays."""
    if part_of is None:
        refuse_unwritable(path)
    whole = Path(path if part_of is None else part_of).resolve()  # a link stays a link
    target = whole if part_of is None else Path(path)
    temporary = target.with_name(f".{whole.name}.{secrets.token_hex(4)}.part")
    with lock_output(path, wait=LONGEST_WRITE) if part_of is None else nullcontext():
        try:
            yield target, temporary
            _sync_folder(target.parent)
        except Exception as error:
            if not isinstance(error, OSError | _error_of_polars()):
                raise
            reason = getattr(error, "strerror", None) or shorten(error)
            raise DataError(f"cannot write {path}: {reason}; make room or choose another place") from None
        finally:
            _remove(temporary)


def _error_of_polars() -> type[Exception]:
    """Return what polars raises where it cannot write."""
    polars = sys.modules.get("polars")
    return OSError if polars is None else polars.exceptions.PolarsError


def _sync_folder(folder: Path) -> None:
    """Wait until the folder is on disk, so that a new name in it survives a power failure."""
    with suppress(OSError):  # Windows, file systems that cannot do it, a folder that may be written but not read
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def refuse_taken(path: str | os.PathLike[str]) -> None:
    """Raise a `DataError` where `atomic_folder` could not make a new folder; worth a call before long work."""
    if os.path.lexists(check_path(path)):
        raise DataError(f"{path} exists already; remove it, or name another folder")
    refuse_unwritable(path)


def refuse_unwritable(path: str | os.PathLike[str]) -> None:
    """Raise a `DataError` where `atomic_write` could not write; worth a call before long work."""
    target = Path(check_path(path))
    try:
        target = target.resolve()  # a link is written through
        mode = target.stat().st_mode if os.path.lexists(target) else None
        has_folder = target.parent.is_dir()
    except (OSError, RuntimeError) as error:  # a name that is too long, links in a circle
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"cannot write {shorten(str(path))}: {reason}; name another file") from None
    if mode is not None and not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise DataError(f"cannot write {path}: it is {what}; name a file to write")
    if not has_folder:
        raise DataError(f"cannot write {path}: the folder {target.parent} does not exist; make it first")
    if not os.access(target.parent, os.W_OK):
        raise DataError(f"cannot write {path}: no permission in {target.parent}; choose another place")


@contextmanager
def lock_output(path: str | os.PathLike[str], *, wait: float = 0.0) -> Iterator[None]:
    """Be the only one in such a block for this output; raise a `LockedOutputError` if another one is.

    The lock is an empty file `.NAME.lock` next to the output, removed at the end. One that a killed process left behind
    locks nothing, and its half-written files are removed. Blocks for one output may be nested within a thread.

    Args:
        path: The output.
        wait: Seconds to wait for the other one to end.
    """
    refuse_unwritable(path)
    target = Path(path).resolve()  # links to one file share a lock
    file = target.with_name(f".{target.name}.lock")
    lock = FileLock(file, is_singleton=True)  # one object for nested blocks
    try:
        lock.acquire(timeout=wait)
    except Timeout:
        raise LockedOutputError(
            f"another run is writing {path} at this moment; wait until it ends, or name another file"
        ) from None
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}; choose another place") from None
    try:
        if lock.lock_counter == 1:
            _remove_abandoned(target)
        yield
    finally:
        if lock.lock_counter == 1:
            _remove(file)  # before it is unlocked, so that no other run has locked it yet
        lock.release()


def _remove_abandoned(target: Path) -> None:
    """Remove what killed writers of this output left behind; none is alive, because the output is locked."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}\.part")
    with suppress(OSError):  # a folder that may be written but not read
        for file in target.parent.iterdir():
            if pattern.fullmatch(file.name):
                _remove(file)
