"""Adjacency lists: one line per user, with the ids of the user's items.

Two forms exist. The graph recommenders (LightGCN and after) write the user's id first: `USER ITEM ITEM …`.
CiteULike writes how many items follow: `COUNT ITEM ITEM …`, and the user is the number of the line, from 0.
"""

from pathlib import Path

import polars as pl

from spherec.data.events import Events
from spherec.data.readers.formats import Reading
from spherec.data.readers.streaming import Block, Collector, read_blocks
from spherec.errors import DataError


def read_adjacency(path: Path, reading: Reading, *, counted: bool = False) -> Events:
    """Read the events of an adjacency list; `counted` if lines begin with a count instead of a user.

    Users without items have no events and are left out.
    """
    collector = Collector(reading)
    for block in read_blocks(path, encoding=reading.encoding, progress=reading.progress):
        collector.add(_pairs(path, block, counted=counted))
        if collector.is_full:
            break
    return collector.finish(path).order_numbers()


def _pairs(path: Path, block: Block, *, counted: bool) -> pl.DataFrame:
    lines = pl.Series("line", block.text.decode().split("\n"))
    rows = pl.DataFrame({"words": lines.str.extract_all(r"\S+")}).with_row_index("row", offset=block.line - 1)
    rows = rows.filter(pl.col("words").list.len() > 0)
    head = pl.col("words").list.first()
    if counted:
        wrong = rows.filter(head.cast(pl.Int64, strict=False).fill_null(-1) != pl.col("words").list.len() - 1)
        if wrong.height:
            row, words = wrong.row(0)
            raise DataError(
                f"{path}, line {row + 1}: begins with {words[0]!r}, but {len(words) - 1} items follow; "
                "mend the line, or read the file as 'adjacency' if lines begin with the user"
            )
        head = pl.col("row").cast(pl.String)
    return rows.select(user=head, item=pl.col("words").list.slice(1)).explode("item", empty_as_null=False)
