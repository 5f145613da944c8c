"""Readers of what polars does not parse: lists of items, the dump of the Netflix Prize, matrices. One function each.

Lists have one line per user. The graph recommenders (LightGCN and after) write `USER ITEM ITEM …` ("adjacency").
CiteULike writes how many items follow instead of the user, `COUNT ITEM ITEM …`, and the user is the number of the line,
from 0 ("citeulike"). In the dump of the Netflix Prize, a line `MOVIE:` is followed by lines `USER,RATING,DATE`. In the
matrices of `scipy.sparse.save_npz`, rows are users, columns are items, and ids are their positions.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp

from spherec.data.frames import list_entries
from spherec.data.input_files import reading_file
from spherec.data.read.formats import Reading, Rows
from spherec.data.read.streaming import first_lines, read_blocks
from spherec.errors import DataError, quote

_WORDS = pl.col("words")
_RATING = r"^(?:(?<movie>\d+):|(?<user>\d+),(?<value>[^,]+),(?<time>[^,]+))$"
_TITLE = re.compile(r"(\d+),(?:\d{4}|NULL),(.+)")  # a title may have commas, and no quotes around it
_LONGEST = 2**31 - 1  # rows or columns


def read_lists(path: Path, reading: Reading) -> Iterator[Rows]:
    """Yield the pairs of a list. Users without items have no events; the record counts them."""
    counted = reading.format == "citeulike"
    for block in read_blocks(path, reading):
        words = pl.Series("words", block.lines).str.extract_all(r"\S+")
        lines = pl.DataFrame(words).with_row_index("line", offset=block.line)
        if counted:
            _refuse_wrong_counts(path, lines)
        filled = lines.filter(_WORDS.list.len() > 1)
        user = (pl.col("line") - 1).cast(pl.String) if counted else _WORDS.list.first()
        pairs = filled.select("line", user=user, item=_WORDS.list.slice(1)).explode("item", empty_as_null=False)
        yield _rows_of_lines(pairs, without_items=(lines.height - filled.height, "lines that have no items"))


def _refuse_wrong_counts(path: Path, lines: pl.DataFrame) -> None:
    count = _WORDS.list.first().cast(pl.Int64, strict=False).fill_null(-1)
    wrong = lines.filter((_WORDS.list.len() > 0) & (count != _WORDS.list.len() - 1))
    if wrong.height:
        line, words = wrong.row(0)
        raise DataError(
            f"{path}, line {line}: begins with {words[0]!r}, but {len(words) - 1} items follow; "
            "mend the line, or read the file as 'adjacency' if lines begin with the user"
        )


def read_netflix(path: Path, reading: Reading) -> Iterator[Rows]:
    """Yield the ratings of combined_data_*.txt, or of a single movie's file."""
    movie: str | None = None  # of the lines before a block
    for block in read_blocks(path, reading):
        lines = pl.DataFrame({"text": block.lines}).with_row_index("line", offset=block.line)
        lines = lines.with_columns(pl.col("text").str.strip_chars()).filter(pl.col("text") != "")
        rows = lines.with_columns(pl.col("text").str.extract_groups(_RATING).alias("part")).unnest("part")
        rows = rows.with_columns(item=pl.col("movie").forward_fill().fill_null(pl.lit(movie)))
        bad = rows.filter(pl.col("item").is_null() | (pl.col("movie").is_null() & pl.col("user").is_null()))
        if bad.height:
            line, text = bad.row(0)[:2]
            raise DataError(
                f"{path}, line {line}: {quote(text)} is neither MOVIE: nor USER,RATING,DATE after one; mend it"
            )
        movie = rows["item"][-1] if rows.height else movie
        yield _rows_of_lines(rows.filter(pl.col("user").is_not_null()).drop("text", "movie"))


def _rows_of_lines(rows: pl.DataFrame, **others: Any) -> Rows:
    """Return rows that know their line in the file."""
    return Rows(rows.drop("line"), lambda row, role: (f"line {rows['line'][row]}", rows[role][row]), **others)


def is_netflix_titles(path: Path) -> bool:
    """Return whether the file is movie_titles.csv or .txt: lines of `MOVIE,YEAR,TITLE`, latin-1."""
    lines = first_lines(path, encoding="latin-1")[:100]
    return bool(lines) and all(map(_TITLE.fullmatch, lines))


def read_netflix_names(path: Path) -> dict[str, str]:
    """Read the titles by movie."""
    lines = (line for block in read_blocks(path, Reading(encoding="latin-1")) for line in block.lines)
    return {match[1]: match[2] for line in lines if (match := _TITLE.fullmatch(line.strip()))}


def read_scipy(path: Path, reading: Reading) -> Iterator[Rows]:  # noqa: ARG001
    """Yield the entries above 0; all columns stay as items, rows without entries are counted."""
    matrix = load_matrix(path)
    values, (n_rows, n_columns) = matrix.data, matrix.shape
    if values.dtype.kind not in "biuf" or not np.all(values >= 0) or not np.any(values > 0):  # also for NaN
        raise DataError(f"{path}: the matrix must hold real numbers >= 0, some above 0; keep what counts: matrix > 0")
    above = values > 0
    rows, columns = matrix.coords
    frame = pl.DataFrame({"user": rows[above], "item": columns[above], "value": values[above].astype(np.float64)})
    yield Rows(
        frame,
        lambda row, role: (f"entry {row}", frame[role][row]),
        without_items=(n_rows - frame["user"].n_unique(), "rows that have no items"),
        catalogue=np.arange(n_columns),
    )


def load_matrix(path: Path) -> Any:
    """Return a matrix with all of its entries, in their order, in the form coo."""
    with reading_file(path, "save it again with scipy.sparse.save_npz"):
        with path.open("rb") as file:
            matrix = sp.load_npz(file)
        if max(matrix.shape) > _LONGEST:
            raise ValueError(f"{matrix.shape} is too large")
        return list_entries(matrix)
