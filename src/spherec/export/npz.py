"""DenseVectors as an .npz archive: item_vectors, item_ids, item_names; user_vectors, user_ids; constraint.

Ids are integers or texts of fixed width, names texts ("" where there is none); all are plain arrays of `numpy.load`.
"""

import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from spherec.data.files import atomic_write
from spherec.errors import DataError
from spherec.export.progress import Counter
from spherec.export.rows import Rows
from spherec.geometry import Constraint

_LARGEST = 1 << 31  # bytes that a reader needs for a column of texts
_DATE = (1980, 1, 1, 0, 0, 0)  # so that bytes do not depend on the clock


def write(path: str | PathLike[str], tables: Sequence[Rows], counter: Counter, constraint: Constraint) -> None:
    """Write the arrays of all tables; vectors as they are, texts compressed."""
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        _member(archive, "constraint", (), np.dtype(f"<U{len(constraint)}"), [np.array(constraint)])
        for rows in tables:
            _ids(archive, rows)
            if rows.names is not None:
                _texts(archive, f"{rows.kind}_names", rows, _names)
            _member(archive, f"{rows.kind}_vectors", rows.vectors.shape, rows.vectors.dtype, _vectors(rows, counter))


def _vectors(rows: Rows, counter: Counter) -> Iterator[NDArray[Any]]:
    for part in rows.blocks():
        yield rows.vectors[part]
        counter.add(part)


def _ids(archive: zipfile.ZipFile, rows: Rows) -> None:
    name = f"{rows.kind}_ids"
    if rows.ids_are_integers:
        _member(archive, name, (len(rows),), np.dtype(np.int64), [rows.ids.array.astype(np.int64)])
        return
    for part in rows.blocks():
        for one in rows.plain_ids(part):
            if str(one).endswith("\0"):
                raise DataError(f"the {rows.kind} id {one!r} ends with NUL, which NumPy cuts off; export to parquet")
    _texts(archive, name, rows, Rows.plain_ids)


def _names(rows: Rows, part: slice) -> list[str]:
    return [one or "" for one in rows.names_of(part)]


def _texts(
    archive: zipfile.ZipFile, name: str, rows: Rows, texts_of: Callable[[Rows, slice], Sequence[int | str]]
) -> None:
    """A column of texts, each as wide as the longest."""
    width = max((len(str(one)) for part in rows.blocks() for one in texts_of(rows, part)), default=0) or 1
    if 4 * width * len(rows) > _LARGEST:
        raise DataError(
            f"{name} are up to {width:,} characters long, and NumPy would make all {len(rows):,} as wide; export to "
            "parquet instead, or leave names out"
        )
    dtype = np.dtype(f"<U{width}")
    blocks = (np.array(texts_of(rows, part), dtype=dtype) for part in rows.blocks())
    _member(archive, name, (len(rows),), dtype, blocks, compress=True)


def _member(
    archive: zipfile.ZipFile,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    blocks: Iterable[NDArray[Any]],
    *,
    compress: bool = False,
) -> None:
    """One array of the archive, from blocks of its rows."""
    info = zipfile.ZipInfo(f"{name}.npy", date_time=_DATE)
    info.compress_type = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    with archive.open(info, "w", force_zip64=True) as member:
        npy.write_array_header_1_0(member, header)
        for block in blocks:
            member.write(np.ascontiguousarray(block).tobytes())
