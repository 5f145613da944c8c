"""Amazon's ratings of 2014: user, item, rating, timestamp, without a header.

The files of 2018 look alike, but are item, user, … and would be read transposed.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from spherec.data.events import Events
from spherec.data.read.delimited import read_delimited
from spherec.data.read.options import Reading
from spherec.data.read.streaming import first_record
from spherec.errors import DataError


def read_amazon_ratings(path: Path, reading: Reading) -> Iterator[Events]:
    """Read the events of a file of 2014; a `DataError` for one of 2018 says how to read that."""
    first, second, *_ = [*first_record(path).text.decode().split(","), "", ""]
    if re.fullmatch(r"[B\d][A-Z\d]{9}", first) and re.fullmatch(r"A[A-Z\d]{8,20}", second):
        raise DataError(
            f"{path}, line 1: {first!r} is an item and {second!r} a user, as in Amazon's files of 2018; read it with "
            "format='delimited', header=['item', 'user', 'rating', 'timestamp'] and value='rating'"
        )
    return read_delimited(path, reading)
