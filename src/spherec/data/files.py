"""Binary files: atomic writing, locks, the manifest, archives of arrays, ids and names as arrays, damaged files.

Two containers hold named arrays and a manifest: the archive (.npz) of this module, for data and checkpoints, and the
safetensors file of `artifact.py`, for models. A manifest is a JSON table: what the file holds (`format`), the
`version` of that format, and what its writer adds.

An archive is a zip of .npy files that `numpy.load` opens. Stored members are placed so that their numbers begin at a
multiple of 64 bytes in the file, so that programs which map them find them aligned. No pickle anywhere.

A list of texts becomes two arrays: all texts in UTF-8, one after the other, and where each begins. Ids keep their type:

- numbers are stored as they are, in the array `NAME`;
- strings and bytes as texts, in `NAME.str` or `NAME.bytes`, with `NAME.offsets`;
- everything else as JSON texts that carry the type, in `NAME.json`: `["tuple", [["int", "1"], ["str", "a"]]]`.
"""

import errno
import json
import math
import os
import re
import secrets
import shutil
import stat
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from threading import get_ident
from typing import IO, Any, BinaryIO, Literal
from uuid import UUID

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from spherec.data.ids import IdMap
from spherec.errors import ArgumentError, DataError, quote

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # Windows
    HAS_LOCKS = False
else:
    HAS_LOCKS = True

Arrays = Mapping[str, NDArray[Any]]

USUAL_RATIO = 200
"""A compressed file that unpacks to no more than so many times its size is never a bomb."""

LARGEST_MANIFEST = 1 << 24
"""Bytes that a manifest may take; a file that claims more is damaged."""

MANIFEST = "manifest"
"""Name of the manifest inside a file."""

_ALIGNMENT = 64
_LOCAL_HEADER = 30  # bytes of a zip member's fixed header, before its name and extra field
_PADDING_ID = 0x5350  # marks our padding among a member's extra fields
_DAMAGE = (Exception,)  # of zipfile, zlib, struct and NumPy on forged bytes: no list of them was ever complete
_DEFLATE_LIMIT = 1040  # no deflate stream unpacks to more bytes for each of its own
_USUAL_UNPACKED = 1 << 28  # an archive that unpacks to no more bytes than this is never a bomb
_MAGIC = b"\x93NUMPY\x01\x00"
# The header of a .npy file as NumPy writes it for plain numbers. NumPy's own reader evaluates it as Python.
_HEADER = re.compile(
    rb"\{'descr': ?'([<>|=]?[a-zA-Z?][0-9]{0,9})', ?'fortran_order': ?False, ?"
    rb"'shape': ?\(([0-9, ]{0,200})\),? ?\} *\n"
)


# --- Writing ---------------------------------------------------------------------------------------------------------


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


# --- Locks -----------------------------------------------------------------------------------------------------------
#
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


# --- Reading and the manifest ----------------------------------------------------------------------------------------


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
    path = Path(check_path(path))
    if find_kind(path) not in ("file", "nothing"):
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
    except MemoryError:
        raise DataError(f"cannot read {path}: memory is short; free some, or {remedy}") from None
    except damage as error:
        raise DataError(f"{path} is damaged or not made by spherec ({shorten(error)}); {remedy}") from None


def check_path(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Return the path; raise an `ArgumentError` unless it can name a file."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise ArgumentError(f"a path must be text or a Path, got {quote(path)}")
    if not os.fspath(path):
        raise ArgumentError("a path must not be empty; name a file")
    if "\0" in os.fspath(path):
        raise ArgumentError(f"a path must not have a NUL character in it, got {quote(os.fspath(path))}")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise ArgumentError(f"a path must not have half a character in it, got {quote(os.fspath(path))}") from None
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
    if kind == "folder":
        raise DataError(f"{path} is a folder; name the file in it")
    if kind == "other":
        raise DataError(f"{path} is a pipe or a device; write its content to a file first")
    try:
        open(path, "rb").close()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; check the path") from None


def read_text_file(path: str | os.PathLike[str], largest: int) -> str:
    """Return the content of a text file in UTF-8 of at most `largest` bytes."""
    refuse_unreadable(path)
    try:
        with open(path, "rb") as file:
            content = file.read(largest + 1)
        if len(content) > largest:
            raise DataError(f"{path} is larger than {largest:,} bytes, which is too much here; check the path")
        return content.decode("utf-8")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; check the path") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text in UTF-8; save it as UTF-8") from None


def read_bytes(file: BinaryIO, begin: int, size: int, *, mmap: bool = False) -> NDArray[np.uint8]:
    """Return `size` bytes of an open file from `begin` on; writing to them does not change the file.

    They are read into memory, where nothing that happens to the file reaches them, and begin at a multiple of 64 bytes.
    Mapped bytes are only as good as the file: where it is overwritten they change, and where it is truncated, reading
    them ends the process.
    """
    if begin + size > os.fstat(file.fileno()).st_size:
        raise DamagedFileError(f"it is truncated, {os.fstat(file.fileno()).st_size:,} bytes of {begin + size:,}")
    if mmap and size:
        return np.memmap(file, dtype=np.uint8, mode="c", offset=begin, shape=(size,)).view(np.ndarray)
    room = np.empty(size + _ALIGNMENT, dtype=np.uint8)
    content = room[-room.ctypes.data % _ALIGNMENT :][:size]
    file.seek(begin)
    if file.readinto(content.data) != size:  # type: ignore[attr-defined]
        raise DamagedFileError("it was truncated while it was read")
    return content


def encode_manifest(manifest: Mapping[str, Any], **added: object) -> str:
    """Return the manifest, with more entries, as JSON; equal manifests give equal text."""
    return json.dumps({**manifest, **added}, sort_keys=True)


def decode_manifest(text: str | bytes) -> dict[str, Any]:
    """Return the manifest that `encode_manifest` wrote."""
    manifest = json.loads(text)
    if not isinstance(manifest, dict):
        raise DamagedFileError("its manifest is not a table")
    return manifest


def check_kind(manifest: Mapping[str, Any], path: Path, kind: str, version: int, *, oldest: int | None = None) -> None:
    """Raise a `DataError` unless the file holds a `kind` of this `version`, or of one since `oldest`."""
    if manifest.get("format") != kind:
        raise DataError(f"{path} holds {quote(manifest.get('format'))}, not {quote(kind)}; give the right file")
    actual = manifest.get("version")
    if type(actual) is not int or not (oldest or version) <= actual <= version:
        newer = isinstance(actual, int) and actual > version
        remedy = "install a newer spherec" if newer else "install a matching spherec"
        reads = version if oldest in (None, version) else f"{oldest} to {version}"
        raise DataError(f"{path} is of format version {shorten(actual)}, this spherec reads {reads}; {remedy}")


def checksum(*arrays: NDArray[Any], start: int = 0) -> str:
    """Return the CRC-32 of the arrays' bytes, one array after the other, as eight hexadecimal digits."""
    value = start
    for array in arrays:
        value = zlib.crc32(np.ascontiguousarray(array).data, value)
    return f"{value:08x}"


def describe_damage(error: Exception) -> str:
    """Return in a few words what is wrong with the content of a file, for a message."""
    missing = isinstance(error, KeyError) and len(error.args) == 1
    return shorten(f"{error.args[0]} is missing" if missing else str(error) or type(error).__name__)


def shorten(thing: object) -> str:
    """Return a value as it appears in a message, cut after 120 characters; strings and errors without quotes."""
    text = str(thing) if isinstance(thing, str | Exception) else quote(thing)
    return text if len(text) <= 120 else f"{text[:120]}…"


# --- Archives --------------------------------------------------------------------------------------------------------


def write_archive(
    path: str | os.PathLike[str],
    arrays: Mapping[str, NDArray[Any]],
    manifest: Mapping[str, Any],
    *,
    compress: bool,
    mode: int = 0o666,
) -> None:
    """Write `arrays` and the JSON-able `manifest` atomically; the same content always gives the same bytes."""
    text = encode_manifest(manifest, arrays=sorted(arrays)).encode()
    members = {MANIFEST: np.frombuffer(text, dtype=np.uint8), **arrays}
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with atomic_write(path, mode=mode) as file, zipfile.ZipFile(file, "w", method, compresslevel=9) as archive:
        for name, array in members.items():
            info = zipfile.ZipInfo(f"{name}.npy")  # dated 1980, so that bytes do not depend on the clock
            info.compress_type = method
            if not compress:
                info.extra = _padding(file.tell(), info)
            with archive.open(info, "w", force_zip64=True) as member:
                npy.write_array(member, np.ascontiguousarray(array), allow_pickle=False)


def read_archive(
    path: str | os.PathLike[str],
    kind: str,
    version: int,
    *,
    remedy: str = "prepare it again",
    max_unpacked: float | None = None,
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays, read-only, and the manifest of an archive of this `kind`, checked against their checksums.

    Args:
        path: The file.
        kind: Its `format`.
        version: Its `version`.
        remedy: How to get an intact file, for errors.
        max_unpacked: Largest size of a compressed archive once unpacked, in GB; by default see `largest_unpacked`.
    """
    with (
        reading_file(path, damage=_DAMAGE, remedy=remedy) as path,
        open(path, "rb") as file,
        zipfile.ZipFile(file) as archive,
    ):
        check_members(archive, path, max_unpacked)
        manifest = _read_manifest(archive)
        check_kind(manifest, path, kind, version)
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        del members[MANIFEST]
        if sorted(members) != manifest.get("arrays", sorted(members)):
            raise DamagedFileError("arrays are missing")
        return {name: _read_array(archive, info, file) for name, info in members.items()}, manifest


def check_members(archive: zipfile.ZipFile, path: Path, max_unpacked: float | None) -> None:
    """Raise an error unless the members fit into the file, and unpack to a size that is allowed; nothing is unpacked.

    The directory of a zip may say anything about its members: that they are huge, or that thousands of them are all the
    same bytes.
    """
    members, size = archive.infolist(), path.stat().st_size
    for info in members:
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DamagedFileError("an unknown compression")
        most = info.compress_size * (_DEFLATE_LIMIT if info.compress_type == zipfile.ZIP_DEFLATED else 1)
        if info.file_size > most or info.header_offset + info.compress_size > size:
            raise DamagedFileError(f"{info.filename} claims {info.file_size:,} bytes")
    if len({info.filename for info in members}) < len(members) or sum(info.compress_size for info in members) > size:
        raise DamagedFileError("its members overlap")
    unpacked = sum(info.file_size for info in members)
    if unpacked > largest_unpacked(size, max_unpacked):
        raise DataError(
            f"{path} would unpack {size / 1e6:,.3g} MB to {unpacked / 1e9:,.3g} GB; if you trust it, allow that with "
            "max_unpacked= (--max-unpacked), in GB"
        )


def largest_unpacked(packed: int, max_unpacked: float | None, *, usual: int | None = None) -> float:
    """Return how many bytes may come out of `packed` bytes; `max_unpacked` is in gigabytes.

    By default 200 times as many, or `usual` if that is more: 0.27 GB where it is not given.
    """
    usual = _USUAL_UNPACKED if usual is None else usual
    return max(usual, USUAL_RATIO * packed) if max_unpacked is None else max_unpacked * 1e9


def read_manifest(path: str | os.PathLike[str], kind: str, version: int, *, remedy: str) -> dict[str, Any]:
    """Return the manifest alone of an archive of this `kind`."""
    with reading_file(path, damage=_DAMAGE, remedy=remedy) as path, zipfile.ZipFile(path) as archive:
        manifest = _read_manifest(archive)
        check_kind(manifest, path, kind, version)
        return manifest


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Return whether the path is an archive: a zip with a manifest in it."""
    if find_kind(path) != "file":  # zipfile would read a device to its end
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return f"{MANIFEST}.npy" in archive.namelist()
    except (OSError, *_DAMAGE):
        return False


def is_partitioned(path: str | os.PathLike[str]) -> bool:
    """Return whether the path is the folder of a partitioned data set (`spherec.data.partitions`)."""
    return find_kind(path) == "folder" and all(is_archive(Path(path) / name) for name in ("index.npz", "ids.npz"))


def is_scipy_archive(path: str | os.PathLike[str]) -> bool:
    """Return whether the path is a sparse matrix that `scipy.sparse.save_npz` wrote."""
    if not Path(path).is_file():
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return {"format.npy", "shape.npy", "data.npy"} <= set(archive.namelist())
    except (OSError, *_DAMAGE):
        return False


def read_arrays(
    path: str | os.PathLike[str], *, remedy: str, max_unpacked: float | None = None
) -> dict[str, NDArray[Any]]:
    """Return the arrays of an .npz file of NumPy's own, read-only; `remedy` says how to get an intact file."""
    with (
        reading_file(path, damage=_DAMAGE, remedy=remedy) as path,
        open(path, "rb") as file,
        zipfile.ZipFile(file) as archive,
    ):
        check_members(archive, path, max_unpacked)
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        return {name: _read_array(archive, info, file) for name, info in members.items()}


def read_array(path: str | os.PathLike[str], *, remedy: str) -> NDArray[Any]:
    """Return the array of a .npy file of NumPy's own; `remedy` says how to get an intact file."""
    with reading_file(path, damage=_DAMAGE, remedy=remedy) as path, open(path, "rb") as file:
        return _to_array(read_bytes(file, 0, path.stat().st_size), path.name)


def is_tensor_file(path: str | os.PathLike[str]) -> bool:
    """Return whether the path is a readable file that begins like a safetensors file, such as a model."""
    if find_kind(path) != "file":
        return False
    try:
        with open(path, "rb") as file:
            begin = file.read(9)
    except OSError:
        return False
    return len(begin) == 9 and begin[8:] == b"{" and int.from_bytes(begin[:8], "little") <= LARGEST_MANIFEST


def _padding(offset: int, info: zipfile.ZipInfo) -> bytes:
    """Return an extra field after which the member's content begins at a multiple of 64 bytes."""
    zip64 = 20  # the extra field with 64-bit sizes that zipfile puts before ours
    begin = offset + _LOCAL_HEADER + len(info.filename.encode()) + zip64 + 4  # 4: head of our own field
    return struct.pack("<HH", _PADDING_ID, -begin % _ALIGNMENT) + bytes(-begin % _ALIGNMENT)


def _read_manifest(archive: zipfile.ZipFile) -> dict[str, Any]:
    info = archive.getinfo(f"{MANIFEST}.npy")
    if info.file_size > LARGEST_MANIFEST:
        raise DamagedFileError(f"its manifest claims {info.file_size:,} bytes")
    return decode_manifest(_to_array(np.frombuffer(archive.read(info), dtype=np.uint8), info.filename).tobytes())


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, file: BinaryIO) -> NDArray[Any]:
    """Return a member as a read-only array in memory, where a change of the file does not reach it."""
    if info.compress_type == zipfile.ZIP_STORED:
        return _to_array(_read_stored(info, file), info.filename)
    return _to_array(np.frombuffer(archive.read(info), dtype=np.uint8), info.filename)


def _to_array(content: NDArray[np.uint8], name: str) -> NDArray[Any]:
    """Return the bytes of a .npy file as an array, a view of them."""
    begin = content[: len(_MAGIC) + 2].tobytes()
    if not begin.startswith(_MAGIC) or len(begin) < len(_MAGIC) + 2:
        raise DamagedFileError(f"{name} is not an array")
    end = len(begin) + int.from_bytes(begin[-2:], "little")  # of the header
    header = _HEADER.fullmatch(content[len(begin) : end].tobytes())
    if header is None:
        raise DamagedFileError(f"{name} does not hold plain numbers")
    dtype = np.dtype(header[1].decode())
    shape = tuple(int(length) for length in header[2].decode().replace(" ", "").split(",") if length)
    numbers = content[end:]
    if dtype.hasobject or not dtype.itemsize or math.prod(shape) * dtype.itemsize != len(numbers):
        raise DamagedFileError(f"{name} does not hold what it declares")
    return numbers.view(dtype).reshape(shape)


def _read_stored(info: zipfile.ZipInfo, file: BinaryIO) -> NDArray[np.uint8]:
    """Return the bytes of a stored member, whose numbers begin at a multiple of 64 bytes."""
    file.seek(info.header_offset + 26)
    name_length, extra_length = struct.unpack("<HH", file.read(4))
    begin = info.header_offset + _LOCAL_HEADER + name_length + extra_length
    content = read_bytes(file, begin, info.file_size)
    content.flags.writeable = False
    if zlib.crc32(content.data) != info.CRC:
        raise DamagedFileError(f"the checksum of {info.filename} is wrong")
    return content


# --- Ids and names as arrays -----------------------------------------------------------------------------------------


def encode_ids(ids: IdMap, name: str) -> dict[str, NDArray[Any]]:
    """Return the ids as arrays called after `name`."""
    values = ids.array
    if values.dtype != object:
        return {name: values}
    kinds = set(map(type, values))
    if kinds <= {str}:
        return _join_texts(list(map(_to_utf8, values)), name, "str")
    if kinds == {bytes}:
        return _join_texts(list(values), name, "bytes")
    return _join_texts([json_text(external).encode() for external in values], name, "json")


def decode_ids(arrays: Arrays, name: str) -> NDArray[Any]:
    """Return the ids (n,) that `encode_ids` stored under `name`; a ValueError where they are not whole."""
    if name in arrays:
        return arrays[name]
    kind = next((kind for kind in ("str", "bytes", "json") if f"{name}.{kind}" in arrays), None)
    if kind is None:
        raise ValueError(f"{name} are missing")
    texts = _split_texts(arrays, name, kind)
    if kind == "bytes":
        ids: list[Hashable] = list(texts)
    elif kind == "str":
        ids = list(map(_from_utf8, texts))
    else:
        ids = [_from_tagged(json.loads(text)) for text in texts]
    return np.fromiter(ids, dtype=object, count=len(ids))


def encode_names(names: Sequence[str | None], name: str) -> dict[str, NDArray[Any]]:
    """Return the names as arrays; an unknown name is stored as an empty text."""
    return _join_texts([_to_utf8(text or "") for text in names], name, "str")


def decode_names(arrays: Arrays, name: str) -> tuple[str | None, ...] | None:
    """Return the names that `encode_names` stored, None where there are none."""
    if f"{name}.str" not in arrays:
        return None
    return tuple(_from_utf8(text) or None for text in _split_texts(arrays, name, "str"))


def json_text(external: Hashable) -> str:
    """Return an id of any type as JSON that carries the type; equal for equal ids only."""
    return json.dumps(_to_tagged(external))


def _to_utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # half a character is no UTF-8, but a Python string may hold it


def _from_utf8(utf8: bytes) -> str:
    return utf8.decode("utf-8", "surrogatepass")


def _join_texts(texts: list[bytes], name: str, kind: str) -> dict[str, NDArray[Any]]:
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    return {
        f"{name}.{kind}": np.frombuffer(b"".join(texts), dtype=np.uint8),
        f"{name}.offsets": np.concatenate(([0], np.cumsum(lengths))),
    }


def _split_texts(arrays: Arrays, name: str, kind: str) -> list[bytes]:
    text, offsets = arrays[f"{name}.{kind}"].tobytes(), arrays[f"{name}.offsets"]
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(text) or np.any(np.diff(offsets) < 0):
        raise ValueError(f"the offsets of {name} do not fit")
    return [text[begin:end] for begin, end in pairwise(offsets.tolist())]


def _to_tagged(external: Hashable) -> list[Any]:
    """Return `[type, content]` with the content as JSON."""
    for name, (kind, encode, _) in _CODECS.items():
        if type(external) is kind:  # a derived type would come back as its base
            return [name, encode(external)]
    kind_name = type(external).__name__
    raise DataError(f"ids of type {kind_name} cannot be saved, got {quote(external)}; make them strings or tuples")


def _from_tagged(tagged: list[Any]) -> Any:
    name, content = tagged
    _, _, decode = _CODECS[name]
    return decode(content)


def _parse_fraction(text: str) -> Fraction:
    """Return a fraction written as 1/3 or 5; `Fraction` itself would work for days on 1e999999999."""
    above, _, below = text.partition("/")
    return Fraction(int(above), int(below or 1))


# The types of ids, what each becomes in JSON, and back.
_CODECS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "bool": (bool, bool, bool),
    "int": (int, str, int),
    "float": (float, float.hex, float.fromhex),
    "str": (str, str, str),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "tuple": (tuple, lambda ids: list(map(_to_tagged, ids)), lambda ids: tuple(map(_from_tagged, ids))),
    "frozenset": (
        frozenset,
        lambda ids: sorted(map(_to_tagged, ids), key=json.dumps),  # equal sets may come in different order
        lambda ids: frozenset(map(_from_tagged, ids)),
    ),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "timedelta": (timedelta, lambda span: [span.days, span.seconds, span.microseconds], lambda span: timedelta(*span)),
    "decimal": (Decimal, str, Decimal),
    "fraction": (Fraction, str, _parse_fraction),
    "uuid": (UUID, str, UUID),
}
