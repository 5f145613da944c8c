"""One writer for each output: locks that end with their process, however it ends.

A lock is `flock` on an open file, so nothing is left to clean up after a kill. Where the system or the file system has
no such lock (Windows, some network folders), everything works as before, without the protection.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident

from spherec.errors import DataError

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # Windows
    HAS_LOCKS = False
else:
    HAS_LOCKS = True


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


_held: dict[Path, int] = {}  # the lock files of this process, and the thread that holds each


@contextmanager
def lock_output(path: str | os.PathLike[str]) -> Iterator[None]:
    """Be the only one in such a block for this output; raise a `DataError` at once if another one is.

    The lock is an empty file `.NAME.lock` next to the output, removed at the end. One that a killed process left behind
    locks nothing. Blocks for one output may be nested within a thread.
    """
    target = Path(path).resolve()  # links to one file share a lock
    file = target.with_name(f".{target.name}.lock")
    if _held.get(file) == get_ident():
        yield
        return
    try:
        descriptor = _open_locked(file)
    except BlockingIOError:
        raise DataError(
            f"another run is writing {path} at this moment; wait until it ends, or name another file"
        ) from None
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
