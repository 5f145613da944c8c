"""Archives of named arrays: a zip of .npy files that `numpy.load` opens, with a manifest that says what it holds.

The manifest is a JSON table: what the file holds (`format`), the `version` of that format, and what its writer adds.
The model file (`artifact.py`), which is a safetensors file, has the same manifest.

Stored members are placed so that their numbers begin at a multiple of 64 bytes in the file, so that programs which map
them find them aligned. No pickle anywhere.
"""

import json
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from spherec.data.input_files import ALIGNMENT, DamagedFileError, find_kind, read_bytes, reading_file
from spherec.data.output_files import atomic_write
from spherec.errors import DataError, quote, shorten

USUAL_RATIO = 200
"""A compressed file that unpacks to no more than so many times its size is never a bomb."""

LARGEST_MANIFEST = 1 << 24
"""Bytes that a manifest may take; a file that claims more is damaged."""

MANIFEST = "manifest"
"""Name of the manifest inside a file."""

_LOCAL_HEADER = 30  # bytes of a zip member's fixed header, before its name and extra field
_PADDING_ID = 0x5350  # marks our padding among a member's extra fields
_PARTITIONED = "spherec-partition"  # begin of the formats of the files of a partitioned data set
_DAMAGE = (Exception,)  # of zipfile, zlib, struct and NumPy on forged bytes: no list of them was ever complete
_DEFLATE_LIMIT = 1040  # no deflate stream unpacks to more bytes for each of its own
_USUAL_UNPACKED = 1 << 28  # an archive that unpacks to no more bytes than this is never a bomb
_MAGIC = b"\x93NUMPY\x01\x00"
# The header of a .npy file as NumPy writes it for plain numbers. NumPy's own reader evaluates it as Python.
_HEADER = re.compile(
    rb"\{'descr': ?'([<>|=]?[a-zA-Z?][0-9]{0,9})', ?'fortran_order': ?False, ?"
    rb"'shape': ?\(([0-9, ]{0,200})\),? ?\} *\n"
)


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
    """Return whether the path is the folder of a partitioned data set (`spherec.data.partitions`), whole or damaged."""
    if find_kind(path) != "folder":
        return False
    return any(_is_of_partitions(Path(path) / name) for name in ("index.npz", "ids.npz", "pairs-0.npz"))


def _is_of_partitions(file: Path) -> bool:
    with suppress(Exception):  # it is damaged
        if is_archive(file):
            with zipfile.ZipFile(file) as archive:
                return str(_read_manifest(archive)["format"]).startswith(_PARTITIONED)
    return False


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
    return struct.pack("<HH", _PADDING_ID, -begin % ALIGNMENT) + bytes(-begin % ALIGNMENT)


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
