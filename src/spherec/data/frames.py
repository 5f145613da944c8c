"""Data frames and matrices of other libraries as `Interactions`."""

from typing import Any, Literal

import scipy.sparse as sp

from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, DataError

Orientation = Literal["users x items", "items x users"]
"""What the rows and the columns of a matrix are."""


def as_interactions(
    data: Any, *, user: str | None = None, item: str | None = None, orientation: Orientation | None = None
) -> Interactions:
    """Return interactions unchanged, and make them of a data frame or a matrix.

    A matrix does not say what its rows are, and a model learns without complaint from a transposed one. So
    `orientation` is required for matrices.

    Args:
        data: `Interactions`, a pandas or polars data frame, a scipy sparse matrix or a dense array.
        user: The column of user ids in a data frame.
        item: The column of item ids in a data frame.
        orientation: "users x items" or "items x users", for a matrix.
    """
    if isinstance(data, Interactions):
        _refuse_options("Interactions know their users and items", user=user, item=item, orientation=orientation)
        return data
    if hasattr(data, "columns"):
        _refuse_options("a data frame goes by columns", orientation=orientation)
        if user is None or item is None:
            names = ", ".join(map(repr, list(data.columns)[:12]))
            raise ArgumentError(f"a data frame needs the names of its columns, user=… and item=…, two of {names}")
        return Interactions.from_frame(data, user=user, item=item, duplicates="sum")  # how often does not matter here
    if sp.issparse(data) or hasattr(data, "__array__"):
        _refuse_options("a matrix has no column names", user=user, item=item)
        return _from_matrix(data, orientation)
    raise DataError(
        f"cannot learn from {type(data).__name__}; give Interactions, a pandas or polars data frame, or a scipy matrix"
    )


def _from_matrix(matrix: Any, orientation: Orientation | None) -> Interactions:
    if orientation not in ("users x items", "items x users"):
        rows, columns = matrix.shape if len(matrix.shape) == 2 else (0, 0)
        raise ArgumentError(
            f"orientation must be 'users x items' ({rows:,} users, {columns:,} items) or 'items x users' "
            f"({columns:,} users, {rows:,} items) for this matrix, got {orientation!r}"
        )
    return Interactions.from_matrix(matrix, rows="users" if orientation == "users x items" else "items")


def _refuse_options(reason: str, **options: str | None) -> None:
    unused = [name for name, value in options.items() if value is not None]
    if unused:
        raise ArgumentError(f"{reason}; leave out {', '.join(unused)}")
