"""Cells of a table of items: read from a data frame, of which kind they are, as numbers, texts, words or vectors."""

import re
import shlex
from datetime import date
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from spherec.data.events import to_seconds
from spherec.data.frames import column_of
from spherec.data.ids import is_missing
from spherec.errors import DataError, quote

Kind = Literal["number", "category", "tags", "text", "vector", "skip"]
"""Meaning of a table's column; "skip" leaves it out."""

TAG_SEPARATORS = ("|", ";", ",")
"""Marks that may stand between tags that are written as one text."""

_WORD = re.compile(r"\w\w+")
_NO_NUMBER = {"", "n/a", "na", "null", "none", "-", "?"}
_LONG_TEXT = 3  # words; texts with more of them on average are text


def read_cells(frame: Any, name: str) -> NDArray[Any]:
    """Return a column of a pandas or polars frame: float64 (n,) or (n, width), or objects (n,), None where missing."""
    column = column_of(frame, name)
    if column.dtype.kind in "biuf" and column.ndim <= 2:
        return column.astype(np.float64)
    if column.dtype.kind in "mM":
        days = column.astype("M8[us]" if column.dtype.kind == "M" else "m8[us]").astype(np.int64) / 86_400e6
        return np.where(np.isnat(column), np.nan, days)
    cells = np.empty(len(column), dtype=object)
    for row, cell in enumerate(column.tolist()):
        if isinstance(cell, tuple | set | frozenset) or (
            hasattr(cell, "tolist") and getattr(cell, "shape", None) != ()
        ):
            cell = sorted(cell, key=str) if isinstance(cell, set | frozenset) else list(cell)
        elif hasattr(cell, "to_list"):  # a list of polars
            cell = cell.to_list()
        elif isinstance(cell, date):  # in pandas
            cell = None if is_missing(cell) else to_seconds(cell) / 86_400
        elif isinstance(cell, bool):
            cell = float(cell)
        cells[row] = cell if isinstance(cell, list | dict) or not is_missing(cell) else None
    return cells


def holds_dates(frame: Any, name: str) -> bool:
    """Tell whether a column has dates alone, which `read_cells` returns as days since 1970."""
    column = column_of(frame, name)
    if column.dtype == object:
        return all(isinstance(cell, date) or is_missing(cell) for cell in column.tolist())
    return column.dtype.kind == "M"


def guess_kind(name: str, cells: NDArray[Any]) -> Kind:
    """Return the kind that the cells of a column suggest.

    Numbers, dates and texts of numbers are numbers, even if some are n/a; lists of fractions are vectors, other lists
    are tags; of texts, those with | in at least half of them are tags, those of more than three words on average, or
    of more than one if most are different, text, and others categories.
    """
    if cells.dtype != object:
        return "number" if cells.ndim == 1 else "vector"
    values = [cell for cell in cells.tolist() if cell is not None]
    if any(isinstance(cell, dict) for cell in values):
        raise DataError(f"column {quote(name)} has tables in its cells; leave it out: {name_kind(name, 'skip')}")
    if any(isinstance(cell, list) for cell in values):
        lists = [cell for cell in values if isinstance(cell, list) and cell]
        are_fractions = all(isinstance(number, float) for cell in lists for number in cell)
        return "vector" if lists and are_fractions and len({len(cell) for cell in lists}) == 1 else "tags"
    texts = list(map(str, values))
    numbers = [text for text in texts if not _is_no_number(text)]
    if all(map(_is_number, numbers)) and (numbers or not texts):
        return "number"
    if 2 * sum("|" in text for text in texts) >= len(texts):
        return "tags"
    n_words = sum(len(text.split()) for text in texts)
    are_titles = n_words > len(texts) and 2 * len(set(texts)) > len(texts)
    return "text" if are_titles or n_words > _LONG_TEXT * len(texts) else "category"


def name_kind(name: str, kind: Kind) -> str:
    """Return how the kind of a column is named, in Python and on the command line."""
    return f"kinds={{{quote(name)}: {quote(kind)}}}, or --feature-kind {shlex.quote(f'{name}={kind}')}"


def to_numbers(name: str, cells: NDArray[Any]) -> NDArray[np.float64]:
    """Return cells as numbers (n,), NaN where missing."""
    if cells.ndim != 1:
        raise DataError(
            f"column {quote(name)} has lists in its cells, not numbers; say so: {name_kind(name, 'vector')}"
        )
    if cells.dtype != object:
        values = cells.astype(np.float64)
    else:
        values = np.empty(len(cells))
        for row, cell in enumerate(cells.tolist()):
            try:
                values[row] = np.nan if cell is None or _is_no_number(cell) else float(cell)
            except (TypeError, ValueError, OverflowError):
                raise DataError(
                    f"column {quote(name)}, row {row}: {quote(cell)} is not a number; mend it, or give the column "
                    f"another kind in training: {name_kind(name, 'category')}"
                ) from None
    if np.isinf(values).any():
        row = int(np.isinf(values).argmax())
        raise DataError(f"column {quote(name)}, row {row}: {values[row]} is not a finite number; mend it or empty it")
    return values


def to_categories(cells: NDArray[Any]) -> list[str | None]:
    """Return cells as categories, None where missing; whole numbers are written without a fraction."""
    return [None if is_missing(cell) else _to_text(cell).strip() or None for cell in cells.tolist()]


def to_words(name: str, cells: NDArray[Any], separator: str | None) -> list[list[str]]:
    """Return the words of each cell: tags split at the separator, or the lower-case words of a text."""
    rows: list[list[str]] = []
    for row, cell in enumerate(cells.tolist()):
        if isinstance(cell, dict):
            raise DataError(f"column {quote(name)}, row {row}: a table is neither text nor tags; leave the column out")
        if isinstance(cell, list):
            rows.append([_to_text(tag) for tag in cell if not is_missing(tag)])
        elif is_missing(cell):
            rows.append([])
        elif separator is None:
            rows.append(_WORD.findall(str(cell).lower()))
        else:
            tags = str(cell).split(separator) if separator else [_to_text(cell)]
            rows.append([tag.strip() for tag in tags if tag.strip()])
    return rows


def find_separator(cells: NDArray[Any]) -> str:
    """Return the separator of tags that are written as one text: the first of | ; , that occurs; "" for none."""
    texts = [cell for cell in cells.tolist() if isinstance(cell, str)]
    return next((mark for mark in TAG_SEPARATORS if any(mark in text for text in texts)), "")


def to_vectors(name: str, cells: NDArray[Any], size: int | None) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return cells as vectors (n, size), zeros where missing, and which are known (n,)."""
    if cells.dtype == object:
        width = next((len(cell) for cell in cells.tolist() if isinstance(cell, list)), size or 0)
        vectors = np.full((len(cells), width), np.nan)
        for row, cell in enumerate(cells.tolist()):
            if cell is None:
                continue
            if not isinstance(cell, list) or len(cell) != width:
                raise DataError(
                    f"column {quote(name)}, row {row}: {quote(cell)} is not a list of {width} numbers; mend it"
                )
            try:
                vectors[row] = [np.nan if number is None else number for number in cell]
            except (TypeError, ValueError, OverflowError):
                raise DataError(f"column {quote(name)}, row {row}: {quote(cell)} is not a list of numbers") from None
    elif cells.ndim == 1 and size is not None and np.isnan(cells).all():  # a column without any vector
        vectors = np.full((len(cells), size), np.nan)
    else:
        vectors = cells if cells.ndim == 2 else cells[:, None]
    if size is not None and vectors.shape[1] != size:
        raise DataError(f"{quote(name)} has vectors of {vectors.shape[1]:,} numbers, but {size:,} when it was fitted")
    finite = np.isfinite(vectors)
    missing = np.isnan(vectors).all(1) if vectors.shape[1] else np.zeros(len(vectors), bool)  # (n,)
    bad = ~finite.all(1) & ~missing
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"{quote(name)}, row {row}: the vector has NaN or infinity in it; mend it, or fill the whole row with NaN "
            "for an item without features"
        )
    return (np.where(finite, vectors, 0) if missing.any() else vectors), ~missing


def _to_text(cell: object) -> str:
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _is_no_number(cell: object) -> bool:
    """Return whether a cell among numbers says that there is none."""
    return isinstance(cell, str) and cell.strip().lower() in _NO_NUMBER


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
