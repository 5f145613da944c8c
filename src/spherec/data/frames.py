"""Columns of pandas and polars data frames, without importing either."""

from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherec.errors import DataError

_SHOWN = 12  # columns named in an error before "and n more"
_LONGEST = 30  # characters of each


def column_of(frame: Any, name: str) -> NDArray[Any]:
    """The column as an array (E,); a `DataError` lists the columns where it is not one of them."""
    is_lazy = hasattr(frame, "collect")  # a query of polars, dask, …
    if is_lazy or not (hasattr(frame, "iloc") or hasattr(frame, "lazy")):  # pandas has the one, polars the other
        hint = "collect() it first" if is_lazy else "make one of it, e.g. with .to_pandas()"
        raise DataError(f"expected a pandas or polars DataFrame, got {type(frame).__name__}; {hint}")
    if name not in frame.columns:
        raise DataError(no_such_column(name, [str(column) for column in frame.columns]))
    return np.asarray(frame[name])


def no_such_column(name: str, columns: list[str]) -> str:
    """One sentence: the column that is missing, those that are there, and the likeliest of them."""
    shown = [column if len(column) <= _LONGEST else f"{column[:_LONGEST]}…" for column in columns[:_SHOWN]]
    more = f" and {len(columns) - _SHOWN} more" if len(columns) > _SHOWN else ""
    close = get_close_matches(name, columns, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "name the right one"
    return f"there is no column {name!r}, only {', '.join(map(repr, shown))}{more}; {hint}"
