"""Item names from a table next to the events. Importing this brings no polars."""

from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from spherec.data.readers.formats import Reading, detect_format, refuse_without_polars
from spherec.errors import DataError


def read_names(
    path: str | PathLike[str], *, id: str, name: str, separator: str | None = None, encoding: str = "utf-8"
) -> dict[str, str]:
    """Read item names by external id, both as strings, from two columns of a file.

    Where an id is repeated, its last name counts.

    Args:
        path: CSV, TSV and JSON lines, plain or gzipped, or Parquet; recognised in the same way as by `read`.
        id: The column with the external ids of items.
        name: The column with their names.
        separator: The separator of columns; tab, comma, semicolon, | and :: are recognised by default.
        encoding: The encoding of a text file.
    """
    refuse_without_polars()
    from spherec.data.readers import delimited, json_lines, parquet

    path = Path(path)
    reading = Reading(separator=separator, encoding=encoding)
    rows: Iterable[tuple[str | None, ...]]
    match detect_format(path):
        case "json-lines":
            rows = json_lines.read_json_texts(path, (id, name), reading)
        case "parquet":
            rows = parquet.read_parquet_texts(path, (id, name))
        case _:
            tables = delimited.read_tables(path, {"id": id, "name": name}, reading)
            rows = (row for table in tables for row in table.frame.iter_rows())
    names = {external: text for external, text in rows if external and text}
    if not names:
        raise DataError(f"{path} has no names: columns {id!r} and {name!r} are empty; name the right ones")
    return names
