"""Named arrays and a manifest in one file: an .npz archive that `numpy.load` opens and that can be memory-mapped.

The archive is a zip whose members are .npy files. Stored members are placed so that their numbers begin at a multiple
of 64 bytes in the file; the operating system can then map them instead of copying them. No pickle anywhere.
"""

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

from spherec.data.files import (
    LARGEST_MANIFEST,
    MANIFEST,
    DamagedFileError,
    atomic_write,
    check_kind,
    decode_manifest,
    encode_manifest,
    reading_file,
)

_ALIGNMENT = 64
_LOCAL_HEADER = 30  # bytes of a zip member's fixed header, before its name and extra field
_PADDING_ID = 0x5350  # marks our padding among a member's extra fields
# Exceptions of zipfile and NumPy on damaged bytes.
_DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, ValueError, KeyError, EOFError, RuntimeError, RecursionError)
_DEFLATE_LIMIT = 1040  # no deflate stream unpacks to more bytes for each of its own


def write_archive(
    path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], manifest: Mapping[str, Any], *, compress: bool
) -> None:
    """Write `arrays` and the JSON-able `manifest` atomically; the same content always gives the same bytes."""
    text = encode_manifest(manifest, arrays=sorted(arrays)).encode()
    members = {MANIFEST: np.frombuffer(text, dtype=np.uint8), **arrays}
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", method, compresslevel=9) as archive:
        for name, array in members.items():
            info = zipfile.ZipInfo(f"{name}.npy")  # dated 1980, so that bytes do not depend on the clock
            info.compress_type = method
            if not compress:
                info.extra = _padding(file.tell(), info)
            with archive.open(info, "w", force_zip64=True) as member:
                npy.write_array(member, np.ascontiguousarray(array), allow_pickle=False)


def read_archive(
    path: str | os.PathLike[str], kind: str, version: int, *, remedy: str = "prepare it again"
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays, read-only, and the manifest of an archive of this `kind`, checked against their checksums.

    `remedy` says in errors how to get an intact file.
    """
    with (
        reading_file(path, damage=_DAMAGE, remedy=remedy) as path,
        open(path, "rb") as file,
        zipfile.ZipFile(file) as archive,
    ):
        manifest = _read_manifest(archive)
        check_kind(manifest, path, kind, version)
        if not {info.compress_type for info in archive.infolist()} <= {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise DamagedFileError("an unknown compression")
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        del members[MANIFEST]
        if sorted(members) != manifest.get("arrays", sorted(members)):
            raise DamagedFileError("arrays are missing")
        return {name: _read_array(archive, info, file, path) for name, info in members.items()}, manifest


def _padding(offset: int, info: zipfile.ZipInfo) -> bytes:
    """Return an extra field after which the member's content begins at a multiple of 64 bytes."""
    zip64 = 20  # the extra field with 64-bit sizes that zipfile puts before ours
    begin = offset + _LOCAL_HEADER + len(info.filename.encode()) + zip64 + 4  # 4: head of our own field
    return struct.pack("<HH", _PADDING_ID, -begin % _ALIGNMENT) + bytes(-begin % _ALIGNMENT)


def _read_manifest(archive: zipfile.ZipFile) -> dict[str, Any]:
    info = archive.getinfo(f"{MANIFEST}.npy")
    if info.file_size > LARGEST_MANIFEST:
        raise DamagedFileError(f"its manifest claims {info.file_size:,} bytes")
    return decode_manifest(npy.read_array(BytesIO(archive.read(info)), allow_pickle=False).tobytes())


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, file: IO[bytes], path: Path) -> NDArray[Any]:
    """Return a member as a read-only array; a stored one is a view of the file, not a copy."""
    if info.compress_type == zipfile.ZIP_STORED:
        content = _map(info, file, path)
    elif info.file_size > info.compress_size * _DEFLATE_LIMIT:
        raise DamagedFileError(f"{info.filename} claims {info.file_size:,} bytes")
    else:
        content = np.frombuffer(archive.read(info), dtype=np.uint8)
    head = BytesIO(content[:4096].tobytes())
    if npy.read_magic(head) != (1, 0):
        raise DamagedFileError(f"{info.filename} is not an array")
    shape, fortran_order, dtype = npy.read_array_header_1_0(head)
    numbers = content[head.tell() :]
    if dtype.hasobject or fortran_order or math.prod(shape) * dtype.itemsize != len(numbers):
        raise DamagedFileError(f"{info.filename} does not hold what it declares")
    return numbers.view(dtype).reshape(shape)


def _map(info: zipfile.ZipInfo, file: IO[bytes], path: Path) -> NDArray[np.uint8]:
    """Map the bytes of a stored member from the file."""
    file.seek(info.header_offset + 26)
    name_length, extra_length = struct.unpack("<HH", file.read(4))
    begin = info.header_offset + _LOCAL_HEADER + name_length + extra_length
    content = np.memmap(path, dtype=np.uint8, mode="r", offset=begin, shape=(info.file_size,)).view(np.ndarray)
    if zlib.crc32(content.data) != info.CRC:
        raise DamagedFileError(f"the checksum of {info.filename} is wrong")
    return content
