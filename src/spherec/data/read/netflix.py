"""The Netflix Prize: a line `MOVIE:` is followed by lines `USER,RATING,DATE` of its ratings; and its titles."""

import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from spherec.data.read.formats import Reading, Rows
from spherec.data.read.streaming import first_lines, read_blocks
from spherec.errors import DataError

_TITLE = re.compile(r"(\d+),(?:\d{4}|NULL),(.+)")  # a title may have commas, and no quotes around it
_SHOWN = 60  # characters of a bad line in an error


def read_rows(path: Path, reading: Reading) -> Iterator[Rows]:
    """Yield the ratings of combined_data_*.txt, or of a single movie's file."""
    movie: str | None = None  # of the lines before a block
    for block in read_blocks(path, reading):
        lines = pl.DataFrame({"line": block.lines}).with_row_index("number", offset=block.line)
        lines = lines.with_columns(pl.col("line").str.strip_chars()).filter(pl.col("line") != "")
        parts = pl.col("line").str.extract_groups(r"^(?:(?<movie>\d+):|(?<user>\d+),(?<value>[^,]+),(?<time>[^,]+))$")
        rows = lines.with_columns(parts.alias("part")).unnest("part")
        rows = rows.with_columns(item=pl.col("movie").forward_fill().fill_null(pl.lit(movie)))
        bad = rows.filter(pl.col("item").is_null() | (pl.col("movie").is_null() & pl.col("user").is_null()))
        if bad.height:
            number, line = bad.row(0)[:2]
            raise DataError(
                f"{path}, line {number}: {line[:_SHOWN]!r} is neither MOVIE: nor USER,RATING,DATE after one; mend it"
            )
        movie = rows["item"][-1] if rows.height else movie
        ratings = rows.filter(pl.col("user").is_not_null())
        yield Rows(
            ratings.select("user", "item", "value", "time"),
            lambda row, role, ratings=ratings: (f"line {ratings['number'][row]}", ratings[role][row]),  # type: ignore[misc]
        )


def is_netflix_titles(path: Path) -> bool:
    """Return whether the file is movie_titles.csv or .txt: lines of `MOVIE,YEAR,TITLE`, latin-1."""
    lines = first_lines(path, encoding="latin-1")[:100]
    return bool(lines) and all(map(_TITLE.fullmatch, lines))


def read_netflix_names(path: Path) -> dict[str, str]:
    """Read the titles by movie."""
    lines = (line for block in read_blocks(path, Reading(encoding="latin-1")) for line in block.lines)
    return {match[1]: match[2] for line in lines if (match := _TITLE.fullmatch(line.strip()))}
