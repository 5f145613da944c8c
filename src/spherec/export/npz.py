"""Export as an .npz archive: item_vectors, item_ids, item_names; user_vectors, user_ids; constraint.

`dial_column` is there if items have reach: the column of `item_vectors` with their reach, and of `user_vectors` with λ.
Ids are integers or texts of fixed width, names texts ("" where there is none); all are plain arrays of `numpy.load`.
"""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from spherec.data.output_files import atomic_write
from spherec.errors import DataError
from spherec.export.table import ExportProgress, ExportTable
from spherec.geometry import Constraint

_LARGEST = 1 << 31  # bytes that a reader needs for a column of texts


def write_npz(path: Path, tables: Sequence[ExportTable], constraint: Constraint, progress: ExportProgress) -> None:
    """Write the arrays of all tables; vectors as they are, all else compressed."""
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        _write(archive, "constraint", constraint)
        if tables[0].dial_column is not None:
            _write(archive, "dial_column", tables[0].dial_column)
        for table in tables:
            ids: list[Any] = []
            names: list[str | None] = []
            with _open(archive, f"{table.kind}_vectors", zipfile.ZIP_STORED) as member:
                shape = len(table), table.dim
                npy.write_array_header_1_0(member, {"descr": "<f4", "fortran_order": False, "shape": shape})
                for block in table.blocks():
                    member.write(np.ascontiguousarray(block.vectors).tobytes())
                    ids += block.ids
                    names += block.names
                    progress.add(len(block))
            _write(archive, f"{table.kind}_ids", ids, np.int64 if table.ids_are_integers else str)
            if table.item_names is not None:
                _write(archive, f"{table.kind}_names", [name or "" for name in names], str)


def _write(archive: zipfile.ZipFile, name: str, values: Any, dtype: type | None = None) -> None:
    """Write one array. Texts are all made as wide as the longest."""
    width = max(map(len, values), default=0) if dtype is str else 0
    if width and 4 * width * len(values) > _LARGEST:
        raise DataError(
            f"{name} are up to {width:,} characters long, and NumPy would make all {len(values):,} as wide; export to "
            "parquet instead, or leave names out"
        )
    with _open(archive, name, zipfile.ZIP_DEFLATED) as member:
        npy.write_array(member, np.asarray(values, dtype), allow_pickle=False)


def _open(archive: zipfile.ZipFile, name: str, compression: int) -> IO[bytes]:
    info = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))  # bytes do not depend on the clock
    info.compress_type = compression
    return archive.open(info, "w", force_zip64=True)
