"""Lists of items: one line per user, with the ids of the user's items.

The graph recommenders (LightGCN and after) write `USER ITEM ITEM …` ("adjacency"). CiteULike writes how many items
follow instead of the user, `COUNT ITEM ITEM …`, and the user is the number of the line, from 0 ("citeulike").
"""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from spherec.data.read.formats import Reading, Rows
from spherec.data.read.streaming import read_blocks
from spherec.errors import DataError

_WORDS = pl.col("words")


def read_rows(path: Path, reading: Reading) -> Iterator[Rows]:
    """Yield the pairs of a list. Users without items have no events; the record counts them."""
    counted = reading.format == "citeulike"
    for block in read_blocks(path, reading):
        words = pl.Series("words", block.lines).str.extract_all(r"\S+")
        lines = pl.DataFrame(words).with_row_index("line", offset=block.line - 1)
        if counted:
            _refuse_wrong_counts(path, lines)
        filled = lines.filter(_WORDS.list.len() > 1)
        user = pl.col("line").cast(pl.String) if counted else _WORDS.list.first()
        pairs = filled.select("line", user=user, item=_WORDS.list.slice(1)).explode("item", empty_as_null=False)
        yield Rows(
            pairs.select("user", "item"),
            lambda row, role, pairs=pairs: (f"line {pairs['line'][row] + 1}", pairs[role][row]),  # type: ignore[misc]
            without_items=(lines.height - filled.height, "lines that have no items"),
        )


def _refuse_wrong_counts(path: Path, lines: pl.DataFrame) -> None:
    count = _WORDS.list.first().cast(pl.Int64, strict=False).fill_null(-1)
    wrong = lines.filter((_WORDS.list.len() > 0) & (count != _WORDS.list.len() - 1))
    if wrong.height:
        line, words = wrong.row(0)
        raise DataError(
            f"{path}, line {line + 1}: begins with {words[0]!r}, but {len(words) - 1} items follow; "
            "mend the line, or read the file as 'adjacency' if lines begin with the user"
        )
