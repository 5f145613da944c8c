"""Named arrays and a manifest in one file: an .npz archive that `numpy.load` opens and that can be memory-mapped.

The archive is a zip whose members are .npy files. Stored members are placed so that their numbers begin at a multiple
of 64 bytes in the file; the operating system can then map them instead of copying them. No pickle anywhere.
"""

import json
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from spherec.data.atomic import atomic_write
from spherec.errors import DataError

_ALIGNMENT = 64
_LOCAL_HEADER = 30  # bytes of a zip member's fixed header, before its name and extra field
_PADDING_ID = 0x5350  # marks our padding among a member's extra fields
_MANIFEST = "manifest"
_LARGEST_MANIFEST = 1 << 24
# What zipfile and NumPy raise on bytes that are not what they seem.
_DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, ValueError, KeyError, EOFError, RuntimeError)
_DEFLATE_LIMIT = 1040  # no deflate stream unpacks to more bytes for each of its own


class _Damaged(Exception):
    """What is wrong with an archive."""


def write(
    path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], manifest: Mapping[str, Any], *, compress: bool
) -> None:
    """Write `arrays` and the JSON-able `manifest`; the same content always gives the same bytes."""
    text = json.dumps({**manifest, "arrays": sorted(arrays)}, sort_keys=True).encode()
    members = {_MANIFEST: np.frombuffer(text, dtype=np.uint8), **arrays}
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", method, compresslevel=9) as archive:
        for name, array in members.items():
            info = zipfile.ZipInfo(f"{name}.npy")  # dated 1980, so that bytes do not depend on the clock
            info.compress_type = method
            if not compress:
                info.extra = _padding(file.tell(), info)
            with archive.open(info, "w", force_zip64=True) as member:
                npy.write_array(member, np.ascontiguousarray(array), allow_pickle=False)


def read(
    path: str | os.PathLike[str], kind: str, version: int, *, remedy: str = "prepare it again"
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays, read-only, and the manifest of an archive of this `kind`, checked against their checksums.

    `remedy` is what to do about a damaged one.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise DataError(f"cannot read {path}: it is not a file; check the path")
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            manifest = _manifest(archive)
            _check_kind(manifest, path, kind, version)
            if not {info.compress_type for info in archive.infolist()} <= {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
                raise _Damaged("an unknown compression")
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            del members[_MANIFEST]
            if sorted(members) != manifest.get("arrays", sorted(members)):
                raise _Damaged("arrays are missing")
            return {name: _array(archive, info, file, path) for name, info in members.items()}, manifest
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; check the path") from None
    except DataError:
        raise
    except _Damaged as damage:
        raise DataError(f"{path} is damaged: {damage}; {remedy}") from None
    except _DAMAGE as error:
        raise DataError(f"{path} is damaged or not made by spherec ({error}); {remedy}") from None


def checksum(*arrays: NDArray[Any]) -> str:
    """Of the arrays' bytes, one after the other, as eight digits."""
    value = 0
    for array in arrays:
        value = zlib.crc32(np.ascontiguousarray(array).data, value)
    return f"{value:08x}"


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether the path is a file, and a zip with a manifest in it."""
    if not Path(path).is_file():  # zipfile would read a device to its end
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return f"{_MANIFEST}.npy" in archive.namelist()
    except (OSError, *_DAMAGE):
        return False


def _padding(offset: int, info: zipfile.ZipInfo) -> bytes:
    """An extra field after which the member's content begins at a multiple of 64 bytes."""
    zip64 = 20  # the extra field with 64-bit sizes that zipfile puts before ours
    begin = offset + _LOCAL_HEADER + len(info.filename.encode()) + zip64 + 4  # 4: head of our own field
    return struct.pack("<HH", _PADDING_ID, -begin % _ALIGNMENT) + bytes(-begin % _ALIGNMENT)


def _manifest(archive: zipfile.ZipFile) -> dict[str, Any]:
    info = archive.getinfo(f"{_MANIFEST}.npy")
    if info.file_size > _LARGEST_MANIFEST:
        raise _Damaged(f"its manifest claims {info.file_size:,} bytes")
    manifest = json.loads(npy.read_array(BytesIO(archive.read(info)), allow_pickle=False).tobytes())
    if not isinstance(manifest, dict):
        raise _Damaged("its manifest is not a table")
    return manifest


def _check_kind(manifest: dict[str, Any], path: Path, kind: str, version: int) -> None:
    if manifest.get("format") != kind:
        raise DataError(f"{path} holds {manifest.get('format')!r}, not {kind!r}; give the right file")
    if manifest.get("version") != version:
        found = manifest.get("version")
        raise DataError(f"{path} is of format version {found}, this spherec reads {version}; install a matching one")


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, file: IO[bytes], path: Path) -> NDArray[Any]:
    """A member as a read-only array; one that is stored is a view of the file, not a copy."""
    if info.compress_type == zipfile.ZIP_STORED:
        content = _mapped(info, file, path)
    elif info.file_size > info.compress_size * _DEFLATE_LIMIT:
        raise _Damaged(f"{info.filename} claims {info.file_size:,} bytes")
    else:
        content = np.frombuffer(archive.read(info), dtype=np.uint8)
    head = BytesIO(content[:4096].tobytes())
    if npy.read_magic(head) != (1, 0):
        raise _Damaged(f"{info.filename} is not an array")
    shape, fortran_order, dtype = npy.read_array_header_1_0(head)
    numbers = content[head.tell() :]
    if dtype.hasobject or fortran_order or math.prod(shape) * dtype.itemsize != len(numbers):
        raise _Damaged(f"{info.filename} does not hold what it declares")
    return numbers.view(dtype).reshape(shape)


def _mapped(info: zipfile.ZipInfo, file: IO[bytes], path: Path) -> NDArray[np.uint8]:
    """The bytes of a stored member, mapped from the file."""
    file.seek(info.header_offset + 26)
    name_length, extra_length = struct.unpack("<HH", file.read(4))
    begin = info.header_offset + _LOCAL_HEADER + name_length + extra_length
    content = np.memmap(path, dtype=np.uint8, mode="r", offset=begin, shape=(info.file_size,)).view(np.ndarray)
    if zlib.crc32(content.data) != info.CRC:
        raise _Damaged(f"the checksum of {info.filename} is wrong")
    return content
