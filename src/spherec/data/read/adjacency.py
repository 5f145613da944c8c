"""Adjacency lists: one line per user, with the ids of the user's items.

Two forms exist. The graph recommenders (LightGCN and after) write the user's id first: `USER ITEM ITEM …`.
CiteULike writes how many items follow: `COUNT ITEM ITEM …`, and the user is the number of the line, from 0.
"""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from spherec.data.events import Events
from spherec.data.read.options import Reading
from spherec.data.read.recognition import WORD_COUNT, describe_word_count
from spherec.data.read.streaming import BadCellError, Block, Collector, read_text
from spherec.errors import DataError


def read_adjacency(path: Path, reading: Reading, *, counted: bool = False) -> Iterator[Events]:
    """Read the events of an adjacency list; `counted` if lines begin with a count instead of a user.

    Users without items have no events; the record counts them.
    """
    collector = Collector(reading)
    n_lines = n_like_counts = 0
    for block in read_text(path, reading):
        rows = _split_lines(path, block)
        filled = rows.filter(pl.col("words").list.len() > 1)
        collector.empty_lines += rows.height - filled.height
        if counted:
            _refuse_wrong_counts(path, rows)
        else:
            n_lines += filled.height
            n_like_counts += filled.select(_is_count().sum()).item()
        head = pl.col("row").cast(pl.String) if counted else pl.col("words").list.first()
        pairs = filled.select("row", user=head, item=pl.col("words").list.slice(1)).explode("item", empty_as_null=False)
        try:
            collector.add(pairs.select("user", "item"))
        except BadCellError as error:
            pair = pairs.row(error.row, named=True)
            raise DataError(error.describe(f"{path}, line {pair['row'] + 1}", error.role, pair[error.role])) from None
        if collector.is_full:
            break
    if n_like_counts >= 0.9 * n_lines and not counted and collector.n_users < n_lines:
        raise DataError(
            f"{path}: {n_like_counts:,} of {n_lines:,} lines begin with the number of the items that follow, as in "
            "CiteULike's users.dat, and not with a user; read it with format='citeulike' (--format citeulike)"
        )
    return collector.finish(path)


def _split_lines(path: Path, block: Block) -> pl.DataFrame:
    """Return the words of each line, blank ones included, with the number of the line in the file, from 0."""
    lines = pl.Series("line", block.text.decode().removesuffix("\n").split("\n"))
    rows = pl.DataFrame({"words": lines.str.extract_all(r"\S+")}).with_row_index("row", offset=block.line - 1)
    if b":" in block.text:
        for row, words in rows.iter_rows():
            if bad := next(filter(WORD_COUNT.fullmatch, words[1:]), None):
                raise DataError(describe_word_count(path, row + 1, bad))
    return rows


def _is_count() -> pl.Expr:
    words = pl.col("words")
    return words.list.first().cast(pl.Int64, strict=False).fill_null(-1) == words.list.len().cast(pl.Int64) - 1


def _refuse_wrong_counts(path: Path, rows: pl.DataFrame) -> None:
    wrong = rows.filter((pl.col("words").list.len() > 0) & ~_is_count())
    if wrong.height:
        row, words = wrong.row(0)
        raise DataError(
            f"{path}, line {row + 1}: begins with {words[0]!r}, but {len(words) - 1} items follow; "
            "mend the line, or read the file as 'adjacency' if lines begin with the user"
        )
