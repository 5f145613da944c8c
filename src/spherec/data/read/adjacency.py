"""Adjacency lists: one line per user, with the ids of the user's items: `USER ITEM ITEM …`.

The graph recommenders (LightGCN and after) write them. CiteULike writes how many items follow instead of the user,
`COUNT ITEM ITEM …`, and the user is the number of the line, from 0; see `citeulike`.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from spherec.data.read.collector import Rows
from spherec.data.read.options import Reading
from spherec.data.read.streaming import Block, read_blocks
from spherec.errors import DataError

WORD_COUNT = re.compile(r"\d+:\d+(?:\.\d+)?")
"""A word and its count, as in CiteULike's mult.dat and in LIBSVM's files."""

_IS_COUNT = pl.col("words").list.first().cast(pl.Int64, strict=False).fill_null(-1) == pl.col("words").list.len() - 1


def read_rows(path: Path, reading: Reading, *, counted: bool = False) -> Iterator[Rows]:
    """Yield the pairs of an adjacency list; `counted` if lines begin with a count instead of a user.

    Users without items have no events; the record counts them.
    """
    for number, block in enumerate(read_blocks(path, reading)):
        lines = _split_lines(path, block)
        filled = lines.filter(pl.col("words").list.len() > 1)
        if counted:
            _refuse_wrong_counts(path, lines)
        elif number == 0:
            _refuse_counts(path, filled)
        head = pl.col("line").cast(pl.String) if counted else pl.col("words").list.first()
        pairs = filled.select("line", user=head, item=pl.col("words").list.slice(1)).explode(
            "item", empty_as_null=False
        )
        yield Rows(
            pairs.select("user", "item"),
            lambda row, role, pairs=pairs: (f"line {pairs['line'][row] + 1}", pairs[role][row]),  # type: ignore[misc]
            without_items=(lines.height - filled.height, "lines that have no items"),
        )


def describe_word_count(path: Path, line: int, word: str) -> str:
    """Return one sentence about a word and its count where an item should be."""
    return (
        f"{path}, line {line}: {word!r} is a word and its count (CiteULike's mult.dat, LIBSVM), not an item; "
        "give the file that has users and items, such as users.dat"
    )


def _split_lines(path: Path, block: Block) -> pl.DataFrame:
    """Return the words of each line, blank ones included, with the number of the line in the file, from 0."""
    words = pl.Series("words", block.lines).str.extract_all(r"\S+")
    if b":" in block.text:
        for line, cells in enumerate(words, start=block.line):
            if bad := next(filter(WORD_COUNT.fullmatch, cells[1:]), None):
                raise DataError(describe_word_count(path, line, bad))
    return pl.DataFrame(words).with_row_index("line", offset=block.line - 1)


def _refuse_counts(path: Path, lines: pl.DataFrame) -> None:
    """Raise a `DataError` if nearly all lines begin with a count, and these repeat: they are no users."""
    counts = lines.select(_IS_COUNT.sum()).item()
    if counts >= 0.9 * lines.height and lines["words"].list.first().n_unique() < lines.height:
        raise DataError(
            f"{path}: {counts:,} of {lines.height:,} lines begin with the number of the items that follow, as in "
            "CiteULike's users.dat, and not with a user; read it with format='citeulike' (--format citeulike)"
        )


def _refuse_wrong_counts(path: Path, lines: pl.DataFrame) -> None:
    wrong = lines.filter((pl.col("words").list.len() > 0) & ~_IS_COUNT)
    if wrong.height:
        line, words = wrong.row(0)
        raise DataError(
            f"{path}, line {line + 1}: begins with {words[0]!r}, but {len(words) - 1} items follow; "
            "mend the line, or read the file as 'adjacency' if lines begin with the user"
        )
