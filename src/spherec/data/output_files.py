"""Output files: written atomically, by one run at a time, and refused before long work where they cannot be written."""

import errno
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident
from time import monotonic, sleep
from typing import IO

from spherec.errors import DataError, LockedOutputError, shorten

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # Windows
    HAS_LOCKS = False
else:
    HAS_LOCKS = True


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Open a binary file that takes its name only when the block ends without an error."""
    with atomic_path(path, mode=mode) as temporary, open(temporary, "wb") as file:
        yield file


@contextmanager
def atomic_path(path: str | os.PathLike[str], *, mode: int = 0o666) -> Iterator[Path]:
    """Yield an empty file next to `path` that takes its name when the block ends: for writers that want a name.

    When the block has ended, the file is on disk under its name, even if power fails. A file that is replaced keeps its
    permissions; a new one gets those of `mode` that the umask leaves. Temporary files that killed writers of this path
    left behind are removed.
    """
    refuse_unwritable(path)
    target = Path(path).resolve()  # a link stays a link
    temporary: Path | None = None
    try:
        _remove_abandoned(target)
        old_mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        temporary, descriptor = _make_temporary(target, mode if old_mode is None else 0o600)
        try:
            yield temporary
            with open(temporary, "rb+") as written:
                os.fsync(written.fileno())
            if old_mode is not None:
                temporary.chmod(old_mode)
            if os.name == "nt":  # where an open file cannot be renamed
                os.close(descriptor)
                descriptor = -1
            temporary.replace(target)
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        sync_folder(target.parent)
    except Exception as error:
        if not isinstance(error, OSError | _error_of_polars()):
            raise
        reason = getattr(error, "strerror", None) or shorten(error)
        raise DataError(f"cannot write {path}: {reason}; make room or choose another place") from None
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def _error_of_polars() -> type[Exception]:
    """Return what polars raises where it cannot write."""
    polars = sys.modules.get("polars")
    return OSError if polars is None else polars.exceptions.PolarsError


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a folder that takes the name `path` when the block ends without an error. It must not exist yet.

    Temporary folders that killed writers of this path left behind are removed.
    """
    target = Path(path)
    refuse_taken(path)
    try:
        with temporary_folder(target) as temporary:
            yield temporary
            temporary.replace(target)
            sync_folder(target.parent)
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror or error}; choose another place") from None


@contextmanager
def temporary_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder next to `target`, for parts of it; it is removed at the end.

    Those that killed writers of this target left behind are removed first.
    """
    _remove_abandoned(target)
    folder, descriptor = _make_temporary(target, None)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if descriptor >= 0:
            os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Wait until the folder is on disk, so that a new name in it survives a power failure."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return  # Windows, or a folder that may be written but not read
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that cannot do it for folders
            raise
    finally:
        os.close(descriptor)


def refuse_taken(path: str | os.PathLike[str]) -> None:
    """Raise a `DataError` where `atomic_folder` could not make a new folder; worth a call before long work."""
    if os.path.lexists(path):
        raise DataError(f"{path} exists already; remove it, or name another folder")
    refuse_unwritable(path)


def refuse_unwritable(path: str | os.PathLike[str]) -> None:
    """Raise a `DataError` where `atomic_write` could not write; worth a call before long work."""
    try:
        target = Path(path).resolve()  # a link is written through
        if target.is_symlink():  # newer versions of Python leave a loop as it is
            raise RuntimeError
        what = target.stat().st_mode if os.path.lexists(target) else None
        is_folder = target.parent.is_dir()
    except RuntimeError:
        raise DataError(f"cannot write {path}: its links lead in a circle; name another file") from None
    except OSError as error:
        raise DataError(f"cannot write {shorten(str(path))}: {error.strerror or error}; name another file") from None
    except ValueError:
        shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in str(path))
        raise DataError(f"cannot write {shorten(shown)}: no file can have that name; name another") from None
    if what is not None and stat.S_ISDIR(what):
        raise DataError(f"{path} is a folder; name a file to write")
    if what is not None and not stat.S_ISREG(what):
        raise DataError(f"cannot write {path}: it is not a regular file; name another")
    if not is_folder:
        through = ", to which it is a link," if Path(path).is_symlink() else ""
        raise DataError(f"cannot write {path}: the folder {target.parent}{through} does not exist; make it first")
    size, most = len(os.fsencode(_temporary_name(target).name)), _longest_name(target.parent)
    if size > most:
        name = len(os.fsencode(target.name))
        raise DataError(
            f"cannot write {path}: its name takes {name} bytes, and {most - size + name} are the most here; shorten it"
        )
    if not os.access(target.parent, os.W_OK):
        raise DataError(f"cannot write {path}: no permission in {target.parent}; choose another place")


def refuse_lack_of_room(sizes: Mapping[str | os.PathLike[str], int]) -> None:
    """Raise a `DataError` if files of about these sizes in bytes do not fit where they are to be written."""
    folders: dict[int, tuple[Path, list[str], int]] = {}
    for path, size in sizes.items():
        folder = Path(path).resolve().parent
        device = folder.stat().st_dev
        _, names, others = folders.get(device, (folder, [], 0))
        folders[device] = folder, [*names, str(path)], others + size
    for folder, names, size in folders.values():
        free = shutil.disk_usage(folder).free
        if size > free:
            raise DataError(
                f"cannot write {' and '.join(names)}: about {_show_size(size)} are needed, but {_show_size(free)} are "
                f"free in {folder}; make room or choose another place"
            )


def _show_size(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


def _longest_name(folder: Path) -> int:
    """Return the largest number of bytes of a file's name."""
    try:
        return os.pathconf(folder, "PC_NAME_MAX")
    except (AttributeError, OSError, ValueError):  # Windows
        return 255


def _temporary_name(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")


def _make_temporary(target: Path, mode: int | None) -> tuple[Path, int]:
    """Make an empty file to write to, and return it with a descriptor that locks it: its writer is alive.

    Without a `mode` it is a folder, and the descriptor is -1 where there are no locks.
    """
    while True:
        temporary = _temporary_name(target)
        if mode is not None:
            descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
        else:
            temporary.mkdir()
            if not HAS_LOCKS:
                return temporary, -1
            try:
                descriptor = os.open(temporary, os.O_RDONLY)
            except FileNotFoundError:
                continue  # as below
        try:
            try_lock(descriptor)
            if os.fstat(descriptor).st_nlink:
                return temporary, descriptor
        except BlockingIOError:
            pass  # another writer of this path is about to remove it, because it was not locked yet
        os.close(descriptor)


def _remove_abandoned(target: Path) -> None:
    """Remove the temporary files and folders of this target whose writers are dead: those that can be locked."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-z_]{{8}}\.part")
    try:
        files = [Path(entry.path) for entry in os.scandir(target.parent) if pattern.fullmatch(entry.name)]
    except OSError:
        return  # a folder that may be written but not read
    for file in files:
        is_folder = file.is_dir() and not file.is_symlink()
        try:
            descriptor = os.open(file, (os.O_RDONLY if is_folder else os.O_RDWR) | getattr(os, "O_NOFOLLOW", 0))
        except OSError:
            continue  # somebody else's
        try:
            if try_lock(descriptor):
                shutil.rmtree(file, ignore_errors=True) if is_folder else file.unlink(missing_ok=True)
        except OSError:
            pass  # it is being written, or may not be removed
        finally:
            os.close(descriptor)


# A lock is `flock` on an open file, so that it ends with its process, however that ends. Where the system or the file
# system has no such lock (Windows, some network folders), everything works, without the protection.


def try_lock(descriptor: int) -> bool:
    """Lock an open file or folder until it is closed. Return False where there are no locks.

    Raises a `BlockingIOError` if another process or thread has locked it.
    """
    if not HAS_LOCKS:
        return False
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


_SECONDS_BETWEEN_TRIES = 0.05
_held: dict[Path, int] = {}  # the lock files of this process, and the thread that holds each


@contextmanager
def lock_output(path: str | os.PathLike[str], *, wait: float = 0.0) -> Iterator[None]:
    """Be the only one in such a block for this output; raise a `LockedOutputError` if another one is.

    The lock is an empty file `.NAME.lock` next to the output, removed at the end. One that a killed process left behind
    locks nothing. Blocks for one output may be nested within a thread.

    Args:
        path: The output.
        wait: Seconds to wait for the other one to end.
    """
    target = Path(path).resolve()  # links to one file share a lock
    file = target.with_name(f".{target.name}.lock")
    if _held.get(file) == get_ident():
        yield
        return
    end = monotonic() + wait
    while True:
        try:
            descriptor = _open_locked(file)
            break
        except BlockingIOError:
            if monotonic() >= end:
                raise LockedOutputError(
                    f"another run is writing {path} at this moment; wait until it ends, or name another file"
                ) from None
            sleep(_SECONDS_BETWEEN_TRIES)
        except OSError as error:
            raise DataError(f"cannot write {path}: {error.strerror or error}; choose another place") from None
    _held[file] = get_ident()
    try:
        yield
    finally:
        del _held[file]
        try:
            file.unlink(missing_ok=True)  # before it is unlocked, so that no other run has locked it yet
        except OSError:
            pass  # an empty file stays behind, which is harmless
        finally:
            os.close(descriptor)


def _open_locked(file: Path) -> int:
    """Return a descriptor of the file, locked; the file is made if it is not there."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            try_lock(descriptor)
            if _is_same(descriptor, file):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the run that had it removed it in between; the next one is ours


def _is_same(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False
