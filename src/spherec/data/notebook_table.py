"""Tables in notebooks."""

from collections.abc import Mapping, Sequence
from html import escape
from itertools import islice
from typing import Any

_SHOWN = 10  # rows


class NotebookTable:
    """Shows itself in a notebook as a table of its first rows, below the first line of its `repr`.

    The table has the `columns` of the object; an object with `values` by name has one row of them.
    """

    def _list_columns(self) -> Mapping[str, Sequence[Any]]:
        """Return the columns of the table, by name."""
        about = vars(self)
        return about.get("columns") or {name: [value] for name, value in about["values"].items()}

    def _repr_html_(self) -> str:
        columns = self._list_columns()
        heads = "".join(f"<th>{escape(name)}</th>" for name in columns)
        rows = ["".join(map(_cell, row)) for row in islice(zip(*columns.values(), strict=True), _SHOWN)]
        more = max(map(len, columns.values()), default=0) - _SHOWN
        what = repr(self).partition("\n")[0].partition("(")[0]
        caption = f"{escape(what)}, {more:,} more rows" if more > 0 else escape(what)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><caption>{caption}</caption><tr>{heads}</tr>{body}</table>"


def _cell(value: Any) -> str:
    text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"<td>{escape(text)}</td>"
