"""External ids <-> dense indices: the one border that raw ids cross; and ids and names as arrays of numbers, for files.

Ids are texts or whole numbers of 64 bits, and all of a column are of one kind. Whole floats, as pandas makes of numbers
where some are missing, become numbers. Everything else is refused, and `str(…)` makes texts of it.

In files, ids that are numbers are the array `NAME`. Texts stand in UTF-8, one after the other, in `NAME.str`, and
`NAME.offsets` says where each begins.
"""

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from spherec.errors import ArgumentError, DataError, UnknownIdError, check_choice, enumerate_ids, quote
from spherec.lazy import Lazy

Ids = Hashable | Iterable[Hashable]
"""One id, or several: a list, an array, a column of a data frame."""

Unknown = Literal["error", "skip"]
"""Treatment of unknown ids: raise an `UnknownIdError`, or skip them."""

_Arrays = Mapping[str, NDArray[Any]]
_ALL = slice(None)
_UTF8 = "utf-8", "surrogatepass"  # half a character is not UTF-8, but a Python string may hold it
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,19}")  # a whole number as Python writes it


class IdMap(Sequence[Hashable]):
    """Distinct external ids of users or items; an id's position is its dense index."""

    def __init__(self, ids: Iterable[Hashable]) -> None:
        values = as_id_array(ids)
        distinct = len(np.unique(values)) if values.dtype != object else len(set(values.tolist()))
        if distinct < len(values):
            raise DataError(f"ids must be distinct, but {len(values) - distinct:,} of {len(values):,} repeat another")
        self._values = values.copy() if values is ids else values
        self._values.setflags(write=False)

    @property
    def array(self) -> NDArray[Any]:
        """The ids as a read-only array (n,): of int64 or uint64, or of texts as objects."""
        return self._values

    @property
    def are_texts(self) -> bool:
        """True if ids are texts, False if they are numbers."""
        return self._values.dtype == object

    def find(self, ids: Iterable[Hashable]) -> NDArray[np.int64]:
        """Return the dense indices of external ids, -1 for those that are not here."""
        plain = ids.tolist() if isinstance(ids, np.ndarray) else ids
        return np.fromiter((self._lookup.get(external, -1) for external in plain), dtype=np.int64)

    def index_of(
        self, ids: Ids, *, role: str = "", unknown: Unknown = "error", remedy: str = "give known ones"
    ) -> NDArray[np.int64]:
        """Return the dense indices (n,) of one id or several, as people give them.

        An `UnknownIdError` names those that are not here, with their `role` ("user", "item") and a `remedy`, unless
        `unknown` is "skip", which leaves them out.
        """
        check_choice("unknown", unknown, get_args(Unknown))
        wanted = list_ids(ids)
        indices = self.find(wanted)  # (n,)
        strange = [] if unknown == "skip" else [wanted[position] for position in np.flatnonzero(indices < 0)]
        if strange:
            hint = ""
            if len(self) and isinstance(strange[0], str) != self.are_texts:  # the commonest mistake
                hint = f", which are {'texts' if self.are_texts else 'numbers'} such as {self._twin(strange[0])}"
            named = f"{role} {enumerate_ids(strange)} {'is' if len(strange) == 1 else 'are'}".lstrip()
            raise UnknownIdError(f"{named} not among the {len(self):,} known ids{hint}; {remedy}")
        return indices[indices >= 0]

    def _twin(self, unknown: Hashable) -> str:
        """Describe the known id that an id of the other kind looks like, or else the first one."""
        (twin,) = spell_like([unknown], self.array)
        return describe_id(twin if twin in self else self[0])

    @Lazy
    def _lookup(self) -> dict[Hashable, int]:
        return {external: index for index, external in enumerate(self._values.tolist())}

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: Any) -> Any:  # an id, or a list of those in a slice
        found = self._values[index]
        return found.tolist() if isinstance(found, np.ndarray | np.generic) else found

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._values.tolist())

    def __contains__(self, external: object) -> bool:
        return external in self._lookup

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IdMap):
            return NotImplemented
        return self._values.dtype == other._values.dtype and np.array_equal(self._values, other._values)

    def __reduce__(self) -> tuple[Any, ...]:
        return IdMap, (self._values,)  # checked and read-only again

    def __repr__(self) -> str:
        shown = ", ".join(repr(external) for external in self[:3])
        return f"IdMap([{shown}{', …' if len(self) > 3 else ''}], n={len(self):,})"


def as_id_array(ids: Iterable[Hashable], role: str = "") -> NDArray[Any]:
    """Return ids as an array (n,): of int64, of uint64 if some need it, or of texts as objects.

    `role` ("user", "item") names them in errors, which go by rows.
    """
    if isinstance(ids, IdMap):
        return ids.array
    what = f"{role} ids".lstrip()
    if not isinstance(ids, Iterable) or getattr(ids, "ndim", 1) != 1:
        raise DataError(f"{what} must be one column, got {quote(ids)}; give one id for each row")
    ids = unmask(ids)
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iuf":
        return _whole_numbers(ids, role)
    values = ids.tolist() if isinstance(ids, np.ndarray) and ids.dtype.kind not in "mM" else list(ids)
    kinds = set(map(type, values))
    if not kinds <= {str} and kinds != {int}:
        _refuse_missing([is_missing(external) for external in values], role)
        values = [_plain(external, role) for external in values]
        kinds = set(map(type, values))
    if len(kinds) > 1:
        number, text = (describe_id(next(one for one in values if type(one) is kind)) for kind in (int, str))
        raise DataError(
            f"{what} must be all numbers or all texts, got {number} and {text}; make them texts with str(…)"
        )
    if int not in kinds:
        return np.fromiter(values, dtype=object, count=len(values))
    for kind in (np.int64, np.uint64):
        with suppress(OverflowError):
            return np.array(values, dtype=kind)
    raise _bad_id(max(values, key=abs), role)


def factorize(column: Iterable[Hashable], role: str) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Return indices (E,) into the distinct ids (n,) of a column, which are sorted.

    `role` ("user", "item") names the column in errors.
    """
    values = as_id_array(column, role)
    if values.dtype != object:
        ids, codes = np.unique(values, return_inverse=True)
        return codes.astype(np.int32), ids
    seen: dict[str, int] = {}
    codes = np.fromiter((seen.setdefault(text, len(seen)) for text in values.tolist()), np.int32, len(values))
    ids = np.fromiter(seen, dtype=object, count=len(seen))
    order = np.argsort(ids, kind="stable")
    return invert(order).astype(np.int32)[codes], ids[order]


def invert(order: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return the permutation that undoes `order` (n,): where each element went."""
    undo = np.empty(len(order), dtype=np.int64)
    undo[order] = np.arange(len(order))
    return undo


def list_ids(ids: Ids) -> list[Hashable]:
    """Return one id, or several, as a list of plain Python values."""
    method = next((name for name in ("tolist", "to_list", "to_pylist") if hasattr(ids, name)), None)
    if method is not None:  # of NumPy, polars and pyarrow; pandas has two of them
        ids = getattr(ids, method)()
    listed = list(cast("Iterable[Hashable]", ids)) if is_several(ids) else [cast("Hashable", ids)]
    for one in listed:  # Python takes True for 1, and large floats were rounded
        is_rounded = isinstance(one, float | np.floating) and abs(float(one)) >= 2**53
        if is_rounded or isinstance(one, bool) or not isinstance(one, Hashable):
            raise ArgumentError(str(_bad_id(one, "")))
    return listed


def is_several(ids: Ids) -> bool:
    """Return whether these are several ids and not a single one."""
    return isinstance(ids, Iterable) and not isinstance(ids, str | bytes)


def spell_like(ids: Iterable[Hashable], known: NDArray[Any]) -> list[Hashable]:
    """Return ids as the known ones (n,) are written: "7" as 7 among numbers, 7 as "7" among texts; "07" stays."""
    if known.dtype == object:
        return [str(one) if isinstance(one, int | np.integer) else one for one in ids]
    return [int(one) if isinstance(one, str) and _WHOLE.fullmatch(one) else one for one in ids]


def refuse_twins(known: IdMap, strange: Iterable[Hashable], knows: str, has: str) -> None:
    """Raise a `DataError` for an unknown id of the other kind: its type is wrong, and it is nobody new.

    `knows` ("the model knows the user") and `has` ("the new interactions have") precede the two in the message.
    """
    other = [external for external in strange if len(known) and isinstance(external, str) != known.are_texts]
    if other:
        raise DataError(
            f"{knows} {known._twin(other[0])}, and {has} {describe_id(other[0])}: ids of another type; make them the "
            "same, where they come from files by one format for both"
        )


def describe_id(external: Hashable) -> str:
    """Return an id with its type, for messages: '7' (str)."""
    return f"{quote(external)} ({type(external).__name__})"


def unmask(column: Any) -> Any:
    """Return a masked array as a list with None under the mask, and everything else unchanged."""
    return column.tolist() if isinstance(column, np.ma.MaskedArray) else column


def is_missing(external: Hashable) -> bool:
    """Return whether a value stands for none: None, NaN, NaT, NA."""
    if external is None or type(external).__name__ == "NAType":  # pandas' NA refuses comparison
        return True
    try:
        return bool(external != external)
    except (TypeError, ValueError):
        return False  # an array, say: it is not missing, but no id either


# --- In files --------------------------------------------------------------------------------------------------------


def encode_ids(ids: IdMap, name: str) -> dict[str, NDArray[Any]]:
    """Return the ids as arrays called after `name`."""
    return encode_names(ids.array.tolist(), name) if ids.are_texts else {name: ids.array}


def decode_ids(arrays: _Arrays, name: str, rows: slice = _ALL) -> NDArray[Any]:
    """Return the ids (n,) that `encode_ids` stored under `name`, or some of them; a ValueError if they are damaged."""
    if name in arrays:
        return arrays[name][rows]
    texts = _split_texts(arrays, name, rows)
    return np.fromiter(texts, dtype=object, count=len(texts))


def encode_names(names: Sequence[str | None], name: str) -> dict[str, NDArray[Any]]:
    """Return the names as arrays; an unknown name is stored as an empty text."""
    encoded = [(text or "").encode(*_UTF8) for text in names]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return {f"{name}.str": np.frombuffer(b"".join(encoded), dtype=np.uint8), f"{name}.offsets": ends}


def decode_names(arrays: _Arrays, name: str, rows: slice = _ALL) -> tuple[str | None, ...] | None:
    """Return the names that `encode_names` stored, or some of them; None where there are none."""
    if f"{name}.str" not in arrays:
        return None
    return tuple(text or None for text in _split_texts(arrays, name, rows))


def _split_texts(arrays: _Arrays, name: str, rows: slice) -> list[str]:
    text, offsets = arrays[f"{name}.str"].tobytes(), arrays[f"{name}.offsets"]
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(text) or np.any(np.diff(offsets) < 0):
        raise ValueError(f"the offsets of {name} do not fit")
    begins, ends = offsets[:-1][rows].tolist(), offsets[1:][rows].tolist()
    return [text[begin:end].decode(*_UTF8) for begin, end in zip(begins, ends, strict=True)]


# --- Columns of ids --------------------------------------------------------------------------------------------------


def _whole_numbers(values: NDArray[Any], role: str) -> NDArray[Any]:
    if values.dtype.kind == "f":
        _refuse_missing(np.isnan(values), role)
        bad = (values % 1 != 0) | (np.abs(values) >= 2.0 ** (np.finfo(values.dtype).nmant + 1))
        if bad.any():
            raise _bad_id(values[bad.argmax()], role)
    elif values.dtype.kind == "u" and len(values) and values.max() > np.iinfo(np.int64).max:
        return values.astype(np.uint64)
    return np.asarray(values, dtype=np.int64)


def _plain(external: Hashable, role: str) -> str | int:
    if isinstance(external, str):
        return str.__str__(external)
    if isinstance(external, int | np.integer) and not isinstance(external, bool | np.timedelta64):
        return int(external)
    if isinstance(external, float | np.floating):
        return int(_whole_numbers(np.array([external]), role)[0])
    raise _bad_id(external, role)


def _bad_id(external: Hashable, role: str) -> DataError:
    return DataError(
        f"{role} ids must be texts or whole numbers of 64 bits (as floats, so small that they are exact), got "
        f"{quote(str(external))} ({type(external).__name__}); make them texts with str(…)".lstrip()
    )


def _refuse_missing(missing: Any, role: str) -> None:
    if np.any(missing):
        what, row, rows = role or "id", int(np.argmax(missing)), int(np.sum(missing))
        raise DataError(f"row {row} has no {what} ({rows:,} such rows); drop the rows without {what} first")
