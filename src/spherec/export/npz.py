"""Export as an .npz archive: item_vectors, item_ids, item_names; user_vectors, user_ids; constraint.

`dial_column` is there if items have reach: the column of `item_vectors` with their reach, and of `user_vectors` with λ.
Ids are integers or texts of fixed width, names texts ("" where there is none); all are plain arrays of `numpy.load`.
"""

import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from spherec.data.output_files import atomic_write
from spherec.errors import DataError, quote
from spherec.export.table import ExportBlock, ExportProgress, ExportTable
from spherec.geometry import Constraint

_LARGEST = 1 << 31  # bytes that a reader needs for a column of texts
_DATE = (1980, 1, 1, 0, 0, 0)  # so that bytes do not depend on the clock


class NpzFormat:
    """Arrays for NumPy."""

    name = "npz"
    suffix = ".npz"

    def write(
        self,
        path: str | PathLike[str],
        tables: Sequence[ExportTable],
        constraint: Constraint,
        progress: ExportProgress,
    ) -> None:
        """Write the arrays of all tables; vectors as they are, texts compressed."""
        with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
            _write_member(archive, "constraint", (), np.dtype(f"<U{len(constraint)}"), [np.array(constraint)])
            if tables[0].dial_column is not None:
                _write_member(archive, "dial_column", (), np.dtype(np.int64), [np.array(tables[0].dial_column)])
            for table in tables:
                _write_ids(archive, table)
                if table.has_names:
                    _write_texts(archive, f"{table.kind}_names", table, _names)
                vectors = _vectors(table, progress)
                _write_member(archive, f"{table.kind}_vectors", (len(table), table.dim), np.dtype(np.float32), vectors)


def _vectors(table: ExportTable, progress: ExportProgress) -> Iterator[NDArray[Any]]:
    for block in table.blocks():
        yield block.vectors
        progress.add(len(block))


def _write_ids(archive: zipfile.ZipFile, table: ExportTable) -> None:
    name = f"{table.kind}_ids"
    if table.ids_are_integers:
        _write_member(archive, name, (len(table),), np.dtype(np.int64), [table.id_map.array.astype(np.int64)])
        return
    for block in table.blocks():
        for plain in block.ids:
            if str(plain).endswith("\0"):
                raise DataError(
                    f"the {table.kind} id {quote(plain)} ends with NUL, which NumPy cuts off; export to parquet"
                )
    _write_texts(archive, name, table, _ids)


def _ids(block: ExportBlock) -> Sequence[int | str]:
    return block.ids


def _names(block: ExportBlock) -> Sequence[int | str]:
    return [name or "" for name in block.names]


def _write_texts(
    archive: zipfile.ZipFile, name: str, table: ExportTable, texts_of: Callable[[ExportBlock], Sequence[int | str]]
) -> None:
    """Write a column of texts, each as wide as the longest."""
    width = max((len(str(text)) for block in table.blocks() for text in texts_of(block)), default=0) or 1
    if 4 * width * len(table) > _LARGEST:
        raise DataError(
            f"{name} are up to {width:,} characters long, and NumPy would make all {len(table):,} as wide; export to "
            "parquet instead, or leave names out"
        )
    dtype = np.dtype(f"<U{width}")
    blocks = (np.array(texts_of(block), dtype=dtype) for block in table.blocks())
    _write_member(archive, name, (len(table),), dtype, blocks, compress=True)


def _write_member(
    archive: zipfile.ZipFile,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    blocks: Iterable[NDArray[Any]],
    *,
    compress: bool = False,
) -> None:
    """Write one array of the archive, from blocks of its rows."""
    info = zipfile.ZipInfo(f"{name}.npy", date_time=_DATE)
    info.compress_type = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    with archive.open(info, "w", force_zip64=True) as member:
        npy.write_array_header_1_0(member, header)
        for block in blocks:
            member.write(np.ascontiguousarray(block).tobytes())
