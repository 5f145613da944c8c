"""Ids as people give them: one or several, known or not."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spherec.data.ids import IdMap, Ids, Unknown, is_several
from spherec.errors import ArgumentError

__all__ = ["Ids", "Unknown", "check_k", "indices_of", "is_several"]

_REMEDY = {
    "user": "place new users with recommend_for or fold_in, or pass over them with unknown='skip'",
    "item": "learn new items with partial_fit, or pass over them with unknown='skip'",
}


def indices_of(ids: Ids, among: IdMap, role: Literal["user", "item"], unknown: Unknown) -> NDArray[np.int64]:
    """Return the indices (n,) of external ids."""
    return among.look_up(ids, role=role, unknown=unknown, remedy=_REMEDY[role])


def check_k(k: int) -> None:
    """Raise an `ArgumentError` unless k is a whole number >= 1."""
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise ArgumentError(f"k must be a whole number >= 1, got {k!r}")
