"""Lists of items, which polars does not parse.

They have one line per user. The graph recommenders (LightGCN and after) write `USER ITEM ITEM …` ("adjacency").
CiteULike writes how many items follow instead of the user, `COUNT ITEM ITEM …`, and the user is the number of the line,
from 0 ("citeulike").
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import polars as pl

from spherec.data.read.formats import Reading, Rows
from spherec.data.read.streaming import read_blocks

_WORDS = pl.col("words")


def read_rows(path: Path, reading: Reading) -> Iterator[Rows]:
    """Yield the pairs of a list. Users without items have no events; the record counts them."""
    counted = reading.format == "citeulike"
    for block in read_blocks(path, reading):
        words = pl.Series("words", block.lines).str.extract_all(r"\S+")
        lines = pl.DataFrame(words).with_row_index("line", offset=block.line)
        filled = lines.filter(_WORDS.list.len() > 1)
        user = (pl.col("line") - 1).cast(pl.String) if counted else _WORDS.list.first()
        pairs = filled.select("line", user=user, item=_WORDS.list.slice(1)).explode("item", empty_as_null=False)
        without = lines.height - filled.height, "lines that have no items"
        yield Rows(pairs.drop("line"), partial(_locate, pairs), without_items=without)


def _locate(pairs: pl.DataFrame, row: int, role: str) -> tuple[str, object]:
    return f"line {pairs['line'][row]}", pairs[role][row]
