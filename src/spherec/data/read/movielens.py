"""MovieLens: ratings.csv has a header; ratings.dat is separated by `::` and u.data by tabs, both without a header."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from spherec.data.events import Events
from spherec.data.read.delimited import read_delimited
from spherec.data.read.options import Reading
from spherec.data.read.streaming import first_record
from spherec.errors import DataError


def read_movielens(path: Path, reading: Reading) -> Iterator[Events]:
    """Read the events of a MovieLens file, whichever of the three it is."""
    first = first_record(path).text.decode().rstrip("\r\n")
    if first.startswith("userId"):
        return read_delimited(path, replace(reading, separator=","))
    for separator in ("::", "\t"):
        if first.count(separator) == 3:
            header = tuple(reading.columns.names.values())
            return read_delimited(path, replace(reading, header=header, separator=separator))
    raise DataError(f"{path}, line 1: {first[:60]!r} is not MovieLens (user::item::rating::time); name its columns")
