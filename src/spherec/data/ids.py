"""External ids <-> dense indices: the one border that raw ids cross."""

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, Literal, cast, get_args, overload

import numpy as np
from numpy.typing import NDArray

from spherec.errors import ArgumentError, DataError, UnknownIdError, enumerate_ids, quote

Ids = Hashable | Iterable[Hashable]
"""One id, or several: a list, an array, a column of a data frame. A tuple is one id."""

Unknown = Literal["error", "skip"]
"""Treatment of unknown ids: raise an `UnknownIdError`, or skip them."""


_TO_LIST = ("to_list", "to_pylist")  # methods of a column of a data frame, and of one of pyarrow
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,19}")  # a whole number of 64 bits as Python writes it
_MOST_WEEKS = 142_857_000  # of Python's timedelta
_MOST_BITS = 4096  # of an id that is a whole number; Python writes none of more than 4,300 digits


class IdMap(Sequence[Hashable]):
    """Distinct external ids of users or items; an id's position is its dense index.

    Ids may be of any hashable type and keep it; NumPy scalars become the Python values that they equal. Ids that
    Python calls equal (`1`, `1.0`, `True`) are one id.
    """

    def __init__(self, ids: Iterable[Hashable]) -> None:
        self._values = _refuse_repeated(as_id_array(ids))
        self._values.setflags(write=False)
        self._indices: dict[Hashable, int] | None = None
        self._by_text: dict[str, Hashable] | None = None

    @property
    def array(self) -> NDArray[Any]:
        """The ids as a read-only array (n,), of a number type if all ids are numbers of that type, else of objects."""
        return self._values

    def index_of(self, ids: Iterable[Hashable]) -> NDArray[np.int64]:
        """Return the dense indices of external ids; an `UnknownIdError` names those that are not here."""
        if isinstance(ids, str | bytes):
            raise ArgumentError(f"ids must be a list of ids, got the single {quote(ids)}; write [{quote(ids)}]")
        wanted = list(ids)
        indices = self.find(wanted)  # (n,)
        unknown = [wanted[position] for position in np.flatnonzero(indices < 0)]
        if unknown:
            known = f"the {len(self):,} known ids{self._hint(unknown[0])}"
            verb = "is" if len(unknown) == 1 else "are"
            raise UnknownIdError(f"{enumerate_ids(unknown)} {verb} not among {known}")
        return indices

    def find(self, ids: Iterable[Hashable]) -> NDArray[np.int64]:
        """Return the dense indices of external ids, -1 for those that are not here."""
        lookup = self._lookup()
        plain = ids.tolist() if isinstance(ids, np.ndarray) else ids
        try:
            return np.fromiter((lookup.get(external, -1) for external in plain), dtype=np.int64)
        except TypeError as error:
            raise UnknownIdError(f"ids must be hashable: {error}") from None

    def look_up(self, ids: Ids, *, role: str, unknown: Unknown = "error", remedy: str) -> NDArray[np.int64]:
        """Return the dense indices (n,) of one id or several, as people give them.

        Args:
            ids: One id or several; see `list_ids`.
            role: What the ids are ("user", "item"), for the message.
            unknown: "skip" leaves out the ids that are not here.
            remedy: What to do about an unknown id, for the message.
        """
        if not isinstance(unknown, str) or unknown not in get_args(Unknown):
            raise ArgumentError(f"unknown must be 'error' or 'skip', got {quote(unknown)}")
        wanted = list_ids(ids)
        if unknown == "skip":
            indices = self.find(wanted)  # (n,)
            return indices[indices >= 0]
        try:
            return self.index_of(wanted)
        except UnknownIdError as error:
            if isinstance(ids, tuple):
                remedy = "a tuple is one id, so give several as a list"
            elif any(self.twin(external) is not None for external in wanted):
                remedy = "give ids of the type that they had in training"
            raise UnknownIdError(f"{role} {error}; {remedy}") from None

    def parse(self, texts: Iterable[str], *, unknown: Unknown = "error") -> list[Hashable]:
        """Return the known ids that texts stand for: "7" is the id "7" or, where there is none, the id 7.

        An id of any type goes by what `str` makes of it, and 7.0 by "7", too. An unknown text raises an
        `UnknownIdError`, or is skipped.
        """
        ids: list[Hashable] = [text if text in self else self._texts().get(text, text) for text in texts]
        if unknown == "skip":
            return [external for external in ids if external in self]
        self.index_of(ids)
        return ids

    def twin(self, external: Hashable) -> Hashable | None:
        """Return the known id that looks the same but has another type: 7 for "7", "7" for 7; None if there is none."""
        other: Hashable = None
        if isinstance(external, str):
            try:
                other = int(external)
            except ValueError:
                return None
        elif isinstance(external, int | np.integer) and int(external).bit_length() <= _MOST_BITS:
            other = str(external)
        return other if other in self else None

    def _hint(self, unknown: Hashable) -> str:
        """Return a hint at the commonest mistake, an id of the wrong type, where it is the cause."""
        twin = self.twin(unknown)
        if twin is not None:
            return f", but the {'string' if isinstance(twin, str) else 'integer'} {quote(twin)} is"
        known = self[0] if len(self) else unknown
        if type(known) is type(unknown):
            return ""
        return f" (ids here are of type {type(known).__name__}, e.g. {quote(known)}; got {type(unknown).__name__})"

    def _texts(self) -> dict[str, Hashable]:
        if self._by_text is None:
            wholes = {str(int(one)): one for one in self if isinstance(one, float) and one.is_integer()}
            self._by_text = wholes | {str(external): external for external in self}
        return self._by_text

    def _lookup(self) -> dict[Hashable, int]:
        if self._indices is None:
            self._indices = {external: index for index, external in enumerate(self._values.tolist())}
        return self._indices

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, index: int) -> Hashable: ...
    @overload
    def __getitem__(self, index: slice) -> list[Hashable]: ...
    def __getitem__(self, index: int | slice) -> Hashable | list[Hashable]:
        if isinstance(index, slice):
            return self._values[index].tolist()  # type: ignore[no-any-return]
        value = self._values[index]
        return value.item() if isinstance(value, np.generic) else value  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._values.tolist())

    def __contains__(self, external: object) -> bool:
        return external in self._lookup()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IdMap):
            return NotImplemented
        mine, theirs = self._values, other._values
        if mine is theirs:
            return True
        if mine.dtype == theirs.dtype != object:
            return np.array_equal(mine, theirs)
        return bool(mine.tolist() == theirs.tolist())  # as Python compares: NumPy would round large integers

    def __hash__(self) -> int:
        return hash((len(self), self[0] if len(self) else None))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self._values, dtype=dtype, copy=copy)

    def __reduce__(self) -> tuple[Any, ...]:
        return IdMap, (self._values,)  # checked and read-only again

    def __repr__(self) -> str:
        shown = ", ".join(repr(external) for external in self[:3])
        return f"IdMap([{shown}{', …' if len(self) > 3 else ''}], n={len(self):,})"


class GrowingIds:
    """Distinct ids, numbered as they come; `role` ("user", "item") names them in errors."""

    def __init__(self, role: str) -> None:
        self._role = role
        self._numbers: dict[Hashable, int] = {}
        self._types: set[np.dtype[Any]] = set()

    def encode(self, ids: NDArray[Any]) -> NDArray[np.int32]:
        """Return the numbers (n,) of ids (n,), new ones for those that were not here."""
        if any((one.kind == "O") != (ids.dtype.kind == "O") for one in self._types):
            raise DataError(f"{self._role} ids are numbers in some files and texts in others; make them the same")
        self._types.add(ids.dtype)
        numbers = self._numbers
        return np.fromiter((numbers.setdefault(one, len(numbers)) for one in ids.tolist()), np.int32, len(ids))

    def array(self) -> NDArray[Any]:
        """Return the ids (n,) in the order of their numbers."""
        return np.fromiter(self._numbers, dtype=common_type(self._types, self._numbers, self._role), count=len(self))

    def __len__(self) -> int:
        return len(self._numbers)


def common_type(types: Iterable[np.dtype[Any]], ids: Iterable[Any], role: str) -> np.dtype[Any]:
    """Return the type for ids of several types. Whole numbers stay exact, where NumPy would make floats of them.

    `ids` has at least the lowest and the highest id of each type; `role` ("user", "item") names them in errors.
    """
    types = set(types)
    common = np.result_type(*types) if types else np.dtype(object)
    if common.kind != "f" or any(one.kind not in "iu" for one in types):
        return common
    ordered = sorted(ids) or [0]
    lowest, highest = ordered[0], ordered[-1]
    if highest <= np.iinfo(np.int64).max:
        return np.dtype(np.int64)
    if lowest < 0:
        raise DataError(
            f"{role} ids go from {lowest} in one file to {highest} in another, and no 64-bit integer type has both; "
            "make them texts in all files"
        )
    return np.dtype(np.uint64)


def list_ids(ids: Ids) -> list[Hashable]:
    """Return one id, or several, as a list of plain Python values."""
    if not is_several(ids):
        return [ids.item() if isinstance(ids, np.generic) else cast("Hashable", ids)]
    for method in _TO_LIST:
        if hasattr(ids, method):
            ids = getattr(ids, method)()
    return as_id_array(cast("Iterable[Hashable]", ids)).tolist()  # type: ignore[no-any-return]


def is_several(ids: Ids) -> bool:
    """Return whether these are several ids: an iterator or a container that cannot be an id itself."""
    if isinstance(ids, IdMap | range | Iterator) or any(hasattr(ids, method) for method in _TO_LIST):
        return True
    return isinstance(ids, Iterable) and not isinstance(ids, Hashable)


def spell_like(ids: Iterable[Hashable], known: NDArray[Any]) -> list[Hashable]:
    """Return ids of a file as the known ones (n,) are written: "7" as 7 among whole numbers, 7 as "7" among texts.

    "07" is another id than 7, and stays.
    """
    if known.dtype.kind in "iu":
        return [int(one) if isinstance(one, str) and _WHOLE.fullmatch(one) else one for one in ids]
    if all(isinstance(one, str) for one in known):
        return [str(one) if isinstance(one, int | np.integer) else one for one in ids]
    return list(ids)


def refuse_twins(known: IdMap, strange: Iterable[Hashable], knows: str, has: str) -> None:
    """Raise a `DataError` where an unknown id has a known twin: its type is wrong, and it is nobody new.

    `knows` ("the model knows the user") and `has` ("the new interactions have") precede the two in the message.
    """
    for external in strange:
        if (twin := known.twin(external)) is not None:
            raise DataError(
                f"{knows} {describe_id(twin)}, and {has} {describe_id(external)}: ids of another type; make them the "
                "same, where they come from files by one format for both"
            )


def refuse_two_types(ids: NDArray[Any], role: str) -> None:
    """Raise a `DataError` for a column with both 7 and "7", as pandas makes of a file that it reads in pieces."""
    if ids.dtype != object or not {int, str} <= set(map(type, ids)):
        return
    texts = {external for external in ids if isinstance(external, str)}
    for external in ids:
        if type(external) is int and str(external) in texts:
            raise DataError(
                f"{role} ids have both {describe_id(external)} and {describe_id(str(external))}: one id in two types; "
                "make them the same, e.g. with .astype(str)"
            )


def describe_id(external: Hashable) -> str:
    """Return an id with its type, for messages: '7' (str)."""
    return f"{quote(external)} ({type(external).__name__})"


def factorize(column: Iterable[Hashable], role: str) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Return indices (E,) into the distinct ids (n,) of a column, sorted where ids can be compared.

    `role` ("user", "item") names the column in errors.
    """
    values = as_id_array(column)
    refuse_missing(values, role)
    if values.dtype != object:
        ids, codes = np.unique(values, return_inverse=True)
        return codes.astype(np.int32), ids
    seen: dict[Hashable, int] = {}
    try:
        codes_seen = np.fromiter((seen.setdefault(external, len(seen)) for external in values), np.int32, len(values))
    except TypeError as error:
        raise DataError(f"{role} ids must be hashable: {error}; make them strings, numbers or tuples") from None
    ids = _objects(list(seen))
    try:
        order = np.argsort(ids, kind="stable")
    except TypeError:  # such as numbers and strings: they stay in the order of their first rows
        return codes_seen, ids
    return invert(order).astype(np.int32)[codes_seen], ids[order]


def invert(order: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return the permutation that undoes `order` (n,): where each element went."""
    undo = np.empty(len(order), dtype=np.int64)
    undo[order] = np.arange(len(order))
    return undo


def as_id_array(ids: Iterable[Hashable]) -> NDArray[Any]:
    """Return an array (n,), of a number type if all ids are numbers of that type, else of Python objects."""
    if isinstance(ids, IdMap):
        return ids.array
    if not isinstance(ids, np.ndarray):
        if not isinstance(ids, Iterable):
            raise DataError(f"ids must be a list or an array, got {type(ids).__name__}; give one id for each row")
        ids = _from_iterable(ids)
    if ids.ndim != 1:
        raise DataError(f"ids must be one-dimensional, got shape {ids.shape}")
    refuse_masked(ids, "ids")
    ids = np.asarray(ids)  # no subclass
    if ids.dtype.kind in "iufb":
        return ids
    if ids.dtype.kind in "mM":  # to date, datetime and timedelta, which hash and compare like themselves
        refuse_far_times(ids, "ids")
        if ids.dtype == "M8[D]":
            return ids.astype(object)
        precise = ids.astype(f"{ids.dtype.kind}8[us]")
        if np.any((precise != ids) & ~np.isnat(ids)):
            raise DataError("time ids finer than a microsecond lose digits; pass them as integers or strings")
        return precise.astype(object)
    return _from_iterable(ids.tolist())


def refuse_masked(column: Any, what: str) -> None:
    """Raise a `DataError` if entries of a NumPy array are masked: under a mask lie arbitrary values."""
    if np.ma.is_masked(column):
        raise DataError(f"some {what} are masked; drop them first, e.g. with .compressed(), or give .filled(0)")


def refuse_far_times(times: NDArray[Any], what: str) -> None:
    """Raise a `DataError` unless NumPy's times (n,) are within the years 1 to 9999, and durations have days.

    NumPy converts others to a finer unit without a check, which makes one time of different ones.
    """
    dates = times.dtype.kind == "M"
    if not dates and np.datetime_data(times.dtype)[0] in ("Y", "M"):
        raise DataError(f"{what} are durations in years or months, which have no fixed length; give days")
    coarse = times.astype("M8[Y]" if dates else "m8[W]").astype(np.int64)  # (n,) years since 1970, or weeks
    low, high = (1 - 1970, 9999 - 1970) if dates else (-_MOST_WEEKS, _MOST_WEEKS)
    bad = ((coarse < low) | (coarse > high)) & ~np.isnat(times)
    if bad.any():
        reach = "the years 1 to 9999" if dates else "a billion days"
        raise DataError(f"row {int(bad.argmax())}: {what} go beyond {reach}; correct them, or pass them as integers")


def refuse_missing(values: NDArray[Any], role: str) -> None:
    """Raise a `DataError` that names the first missing id (None, NaN, NaT, NA)."""
    if values.dtype != object:
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(0, bool)
    else:
        missing = np.fromiter((is_missing(external) for external in values), bool, len(values))
    if missing.any():
        row = int(missing.argmax())
        raise DataError(
            f"row {row} has no {role}: its id is {quote(values[row])} ({int(missing.sum()):,} such rows); "
            f"drop the rows without {role} first"
        )


def _from_iterable(ids: Iterable[Hashable]) -> NDArray[Any]:
    """Return ids of any types, each with its exact type: np.asarray would turn [1, "a"] into two strings."""
    if not isinstance(ids, Iterable):
        raise ArgumentError(f"ids must be a list or a column of ids, got {quote(ids)}")
    values = list(ids)
    kinds = set(map(type, values))
    if len(kinds) == 1 and kinds <= {int, float, bool}:
        try:
            return np.array(values, dtype=kinds.pop())
        except OverflowError:  # integers beyond 64 bits stay Python integers
            pass
    return _objects([external.item() if isinstance(external, np.generic) else external for external in values])


def _objects(values: Sequence[Hashable]) -> NDArray[Any]:
    return np.fromiter(values, dtype=object, count=len(values))  # np.array would unpack tuples into columns


def _refuse_repeated(values: NDArray[Any]) -> NDArray[Any]:
    refuse_missing(values, "id")
    if values.dtype == object and any(isinstance(one, int) and one.bit_length() > _MOST_BITS for one in values):
        raise DataError(f"ids must be numbers of at most {_MOST_BITS:,} bits; make them strings")
    try:
        distinct = _count_distinct(values) if values.dtype != object else len(set(values.tolist()))
    except TypeError as error:
        raise DataError(f"ids must be hashable: {error}; make them strings, numbers or tuples") from None
    if distinct < len(values):
        raise DataError(f"ids must be distinct, but {len(values) - distinct:,} of {len(values):,} repeat another")
    return values if _is_frozen(values) else values.copy()


def _count_distinct(values: NDArray[Any]) -> int:
    """Count distinct numbers (n,) by sorting: `np.unique` takes ten times as long for millions of integers."""
    ascending = np.sort(values)
    return int(np.count_nonzero(ascending[1:] != ascending[:-1])) + min(len(values), 1)


def _is_frozen(values: NDArray[Any]) -> bool:
    """Return whether nobody can write to the array, or to one that it is a view of."""
    owner: Any = values
    while isinstance(owner, np.ndarray) and not owner.flags.writeable:
        owner = owner.base
    return not isinstance(owner, np.ndarray)


def is_missing(external: Hashable) -> bool:
    """Return whether a value stands for none: None, NaN, NaT, NA."""
    if external is None or type(external).__name__ == "NAType":  # pandas' NA refuses comparison
        return True
    try:
        return bool(external != external)
    except (TypeError, ValueError, ArithmeticError):
        return False  # an array, say: it is not missing, and refused for not being hashable
