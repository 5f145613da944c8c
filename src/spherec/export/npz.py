"""Export as an .npz archive: item_vectors, item_ids, item_names; user_vectors, user_ids; constraint.

`dial_column` is there if items have reach: the column of `item_vectors` with their reach, and of `user_vectors` with λ.
Ids are integers or texts of fixed width, names texts ("" where there is none); all are plain arrays of `numpy.load`.
"""

import zipfile
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from spherec.data.output_files import atomic_write
from spherec.errors import DataError, quote
from spherec.export.table import ExportProgress, ExportTable
from spherec.geometry import Constraint

_LARGEST = 1 << 31  # bytes that a reader needs for a column of texts
_DATE = (1980, 1, 1, 0, 0, 0)  # so that bytes do not depend on the clock


class NpzFormat:
    """Arrays for NumPy and FAISS."""

    name = "npz"
    suffix = ".npz"

    def write(
        self, path: str | PathLike[str], tables: Sequence[ExportTable], constraint: Constraint, progress: ExportProgress
    ) -> None:
        """Write the arrays of all tables; vectors as they are, texts compressed."""
        with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
            _write(archive, "constraint", np.array(constraint))
            if tables[0].dial_column is not None:
                _write(archive, "dial_column", np.array(tables[0].dial_column))
            for table in tables:
                ids, names = table.id_map.array, table.item_names
                _write(
                    archive,
                    f"{table.kind}_ids",
                    ids if table.ids_are_integers else _to_texts(table, "ids", list(map(str, ids.tolist()))),
                )
                if names is not None:
                    _write(archive, f"{table.kind}_names", _to_texts(table, "names", [name or "" for name in names]))
                shape = len(table), table.dim
                _write_blocks(archive, f"{table.kind}_vectors", shape, np.dtype("<f4"), _vectors(table, progress))


def _vectors(table: ExportTable, progress: ExportProgress) -> Iterator[NDArray[Any]]:
    for block in table.blocks():
        yield block.vectors
        progress.add(len(block))


def _to_texts(table: ExportTable, name: str, texts: Sequence[str]) -> NDArray[np.str_]:
    """Return a column of texts, each as wide as the longest."""
    bad = next((text for text in texts if text.endswith("\0")), None)
    if bad is not None and name == "ids":
        raise DataError(f"the {table.kind} id {quote(bad)} ends with NUL, which NumPy cuts off; export to parquet")
    width = max(map(len, texts), default=0) or 1
    if 4 * width * len(texts) > _LARGEST:
        raise DataError(
            f"{table.kind}_{name} are up to {width:,} characters long, and NumPy would make all {len(texts):,} as "
            "wide; export to parquet instead, or leave names out"
        )
    return np.array(texts, dtype=f"<U{width}")


def _write(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> None:
    _write_blocks(archive, name, array.shape, array.dtype, [array], compress=array.dtype.kind == "U" and array.ndim > 0)


def _write_blocks(
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
