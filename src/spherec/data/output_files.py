"""Output files: written atomically, by one run at a time, and refused before long work where they cannot be written."""

import os
import re
import secrets
import shutil
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO

from filelock import FileLock, Timeout

from spherec.data.input_files import check_path, find_kind
from spherec.errors import DataError, LockedOutputError, shorten

LONGEST_WRITE = 60.0
"""Seconds that a writer waits for another one of the same file."""


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, mode: int = 0o666, is_part: bool = False) -> Iterator[IO[bytes]]:
    """Open a binary file that takes its name only when the block ends without an error; see `atomic_path`."""
    with atomic_path(path, mode=mode, is_part=is_part) as temporary, open(temporary, "wb") as file:
        yield file


@contextmanager
def atomic_path(path: str | os.PathLike[str], *, mode: int = 0o666, is_part: bool = False) -> Iterator[Path]:
    """Yield an empty file next to `path` that takes its name when the block ends: for writers that want a name.

    When the block has ended, the file is on disk, even if power fails. The output is locked meanwhile.

    Where the output is a link, the file that it leads to is replaced. That file's permissions stay; a new file, or a
    part of an output that the caller has locked, has those of `mode`, of which the umask may take some.
    """
    with _writing(path, is_part=is_part) as (target, temporary):
        old_mode = None if is_part or not target.exists() else stat.S_IMODE(target.stat().st_mode)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY  # follows no link
        os.close(os.open(temporary, flags, mode | 0o600 if old_mode is None else 0o600))
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
def _writing(path: str | os.PathLike[str], *, is_part: bool = False) -> Iterator[tuple[Path, Path]]:
    """Lock an output; yield the path that it leads to, and a new name next to it, of which nothing stays."""
    with nullcontext(Path(path)) if is_part else lock_output(path, wait=LONGEST_WRITE) as target:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        try:
            yield target, temporary
            _sync_folder(target.parent)
        except Exception as error:
            if not isinstance(error, OSError) and not type(error).__module__.startswith("polars"):
                raise
            reason = getattr(error, "strerror", None) or shorten(error)
            raise DataError(f"cannot write {path}: {reason}; make room or choose another place") from None
        finally:
            _remove(temporary)


def _sync_folder(folder: Path) -> None:
    """Wait until the folder is on disk, so that a new name in it survives a power failure."""
    with suppress(OSError):  # Windows, file systems that cannot do it, a folder that may be written but not read
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_matching(path: Path, ending: str, keep: Collection[str] = ()) -> None:
    """Remove the files called as this one, hidden or not, with an ending of this pattern, but none of `keep`."""
    pattern = re.compile(rf"\.?{re.escape(path.name)}{ending}")
    with suppress(OSError):  # a folder that may be written but not read
        for file in path.parent.iterdir():
            if pattern.fullmatch(file.name) and file.name not in keep:
                _remove(file)


def _remove(path: Path) -> None:
    with suppress(OSError):  # also where the name is too long
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        path.unlink()


def refuse_taken(path: str | os.PathLike[str]) -> None:
    """Raise a `DataError` where `atomic_folder` could not make a new folder; worth a call before long work."""
    if os.path.lexists(check_path(path)):
        raise DataError(f"{path} exists already; remove it, or name another folder")
    refuse_unwritable(path)


def refuse_unwritable(path: str | os.PathLike[str]) -> None:
    """Raise a `DataError` where `atomic_write` could not write; worth a call before long work."""
    target = Path(os.path.realpath(check_path(path)))  # a link is written through
    kind, folder = find_kind(target), target.parent
    for is_so, problem in (
        (kind == "folder", "it is a folder; name a file to write"),
        (kind == "other", "it is not a regular file; name a file to write"),
        (find_kind(folder) != "folder", f"the folder {folder} does not exist; make it first"),
        (not os.access(folder, os.W_OK), f"no permission in {folder}; choose another place"),
    ):
        if is_so:
            raise DataError(f"cannot write {path}: {problem}")


@contextmanager
def lock_output(path: str | os.PathLike[str], *, wait: float = 0.0) -> Iterator[Path]:
    """Be the only one in such a block for this output, and yield the path of the file that it leads to.

    The lock is an empty file `.NAME.lock` next to the output, removed at the end. One that a killed process left behind
    locks nothing, and its half-written files are removed. Another run waits, and then gets a `LockedOutputError`.
    """
    refuse_unwritable(path)
    target = Path(os.path.realpath(path))  # links to one file share a lock
    file = target.with_name(f".{target.name}.lock")
    lock = FileLock(file, is_singleton=True)  # one object for nested blocks
    try:
        lock.acquire(timeout=wait)
    except Timeout:
        raise LockedOutputError(
            f"another run is writing {path} at this moment; wait until it ends, or name another file"
        ) from None
    except OSError as error:
        raise DataError(f"cannot write {shorten(str(path))}: {error.strerror}; choose another place") from None
    try:
        if lock.lock_counter == 1:
            remove_matching(target, r"(\.\d+-of-\d+\.[0-9a-f]{8})?\.[0-9a-f]{8}\.part")
        yield target
    finally:
        if lock.lock_counter == 1:
            _remove(file)  # before it is unlocked, so that no other run has locked it yet
        lock.release()
