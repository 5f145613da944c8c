"""Ids as people give them: one or several, known or not."""

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from spherec.data.ids import IdMap, as_id_array
from spherec.errors import ArgumentError, UnknownIdError

Unknown = Literal["error", "skip"]
"""What to do about ids that the model does not know."""

Ids = Any
"""One id, or several: a list, an array, a column of a data frame. A tuple is one id."""

_REMEDY = {
    "user": "place new users with recommend_for or fold_in, or pass over them with unknown='skip'",
    "item": "learn new items with partial_fit, or pass over them with unknown='skip'",
}


def indices_of(ids: Ids, among: IdMap, role: Literal["user", "item"], unknown: Unknown) -> NDArray[np.int64]:
    """The indices of external ids (n,); an error names those that are not known, unless they are to be passed over."""
    if unknown not in get_args(Unknown):
        raise ArgumentError(f"unknown must be 'error' or 'skip', got {unknown!r}")
    wanted = several(ids)
    if unknown == "skip":
        found = among.find(wanted)  # (n,)
        return found[found >= 0]
    try:
        return among.index_of(wanted)
    except UnknownIdError as error:
        remedy = _REMEDY[role]
        if isinstance(ids, tuple):
            remedy = "a tuple is one id, so give several as a list"
        elif any(among.twin(one) is not None for one in wanted):
            remedy = "give ids of the type that they had in training"
        raise UnknownIdError(f"{role} {error}; {remedy}") from None


def several(ids: Ids) -> list[Hashable]:
    """The ids as a list, also where one was given."""
    if not is_several(ids):
        return [ids.item() if isinstance(ids, np.generic) else ids]
    if hasattr(ids, "to_list"):  # a column of a data frame
        ids = ids.to_list()
    return as_id_array(ids).tolist()  # type: ignore[no-any-return]


def is_several(ids: Ids) -> bool:
    """Whether these are several ids. Whatever can be an id itself is one, except what is made to be run through."""
    if isinstance(ids, IdMap | range | Iterator) or hasattr(ids, "to_list"):
        return True
    return isinstance(ids, Iterable) and not isinstance(ids, Hashable)


def check_k(k: int) -> None:
    """Raises an `ArgumentError` unless k is a whole number >= 1."""
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise ArgumentError(f"k must be a whole number >= 1, got {k!r}")
