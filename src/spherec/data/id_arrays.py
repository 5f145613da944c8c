"""Ids and names as arrays of plain numbers, for files; ids keep their type.

A list of texts becomes two arrays: all texts in UTF-8, one after the other, and where each begins.

- Numbers are stored as they are, in the array `NAME`;
- strings and bytes as texts, in `NAME.str` or `NAME.bytes`, with `NAME.offsets`;
- everything else as JSON texts that carry the type, in `NAME.json`: `["tuple", [["int", "1"], ["str", "a"]]]`.
"""

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from spherec.data.ids import IdMap
from spherec.errors import DataError, quote

Arrays = Mapping[str, NDArray[Any]]

_ALL = slice(None)


def encode_ids(ids: IdMap, name: str) -> dict[str, NDArray[Any]]:
    """Return the ids as arrays called after `name`."""
    values = ids.array
    if values.dtype != object:
        return {name: values}
    kinds = set(map(type, values))
    if kinds <= {str}:
        return _join_texts(list(map(_to_utf8, values)), name, "str")
    if kinds == {bytes}:
        return _join_texts(list(values), name, "bytes")
    return _join_texts([json_text(external).encode() for external in values], name, "json")


def decode_ids(arrays: Arrays, name: str, rows: slice = _ALL) -> NDArray[Any]:
    """Return the ids (n,) that `encode_ids` stored under `name`, or some of them.

    Raises a ValueError where they are not whole.
    """
    if name in arrays:
        return arrays[name][rows]
    kind = next((kind for kind in ("str", "bytes", "json") if f"{name}.{kind}" in arrays), None)
    if kind is None:
        raise ValueError(f"{name} are missing")
    texts = _split_texts(arrays, name, kind, rows)
    if kind == "bytes":
        ids: list[Hashable] = list(texts)
    elif kind == "str":
        ids = list(map(_from_utf8, texts))
    else:
        ids = [_from_tagged(json.loads(text)) for text in texts]
    return np.fromiter(ids, dtype=object, count=len(ids))


def encode_names(names: Sequence[str | None], name: str) -> dict[str, NDArray[Any]]:
    """Return the names as arrays; an unknown name is stored as an empty text."""
    return _join_texts([_to_utf8(text or "") for text in names], name, "str")


def decode_names(arrays: Arrays, name: str, rows: slice = _ALL) -> tuple[str | None, ...] | None:
    """Return the names that `encode_names` stored, or some of them; None where there are none."""
    if f"{name}.str" not in arrays:
        return None
    return tuple(_from_utf8(text) or None for text in _split_texts(arrays, name, "str", rows))


def json_text(external: Hashable) -> str:
    """Return an id of any type as JSON that carries the type; equal for equal ids only."""
    return json.dumps(_to_tagged(external))


def _to_utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # half a character is no UTF-8, but a Python string may hold it


def _from_utf8(utf8: bytes) -> str:
    return utf8.decode("utf-8", "surrogatepass")


def _join_texts(texts: list[bytes], name: str, kind: str) -> dict[str, NDArray[Any]]:
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    return {
        f"{name}.{kind}": np.frombuffer(b"".join(texts), dtype=np.uint8),
        f"{name}.offsets": np.concatenate(([0], np.cumsum(lengths))),
    }


def _split_texts(arrays: Arrays, name: str, kind: str, rows: slice) -> list[bytes]:
    text, offsets = arrays[f"{name}.{kind}"].tobytes(), arrays[f"{name}.offsets"]
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(text) or np.any(np.diff(offsets) < 0):
        raise ValueError(f"the offsets of {name} do not fit")
    begins, ends = offsets[:-1][rows].tolist(), offsets[1:][rows].tolist()
    return [text[begin:end] for begin, end in zip(begins, ends, strict=True)]


def _to_tagged(external: Hashable) -> list[Any]:
    """Return `[type, content]` with the content as JSON."""
    for name, (kind, encode, _) in _CODECS.items():
        if type(external) is kind:  # a derived type would come back as its base
            return [name, encode(external)]
    kind_name = type(external).__name__
    raise DataError(f"ids of type {kind_name} cannot be saved, got {quote(external)}; make them strings or tuples")


def _from_tagged(tagged: list[Any]) -> Any:
    name, content = tagged
    _, _, decode = _CODECS[name]
    return decode(content)


def _parse_fraction(text: str) -> Fraction:
    """Return a fraction written as 1/3 or 5; `Fraction` itself would work for days on 1e999999999."""
    above, _, below = text.partition("/")
    return Fraction(int(above), int(below or 1))


# The types of ids, what each becomes in JSON, and back.
_CODECS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "bool": (bool, bool, bool),
    "int": (int, str, int),
    "float": (float, float.hex, float.fromhex),
    "str": (str, str, str),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "tuple": (tuple, lambda ids: list(map(_to_tagged, ids)), lambda ids: tuple(map(_from_tagged, ids))),
    "frozenset": (
        frozenset,
        lambda ids: sorted(map(_to_tagged, ids), key=json.dumps),  # equal sets may come in different order
        lambda ids: frozenset(map(_from_tagged, ids)),
    ),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "timedelta": (timedelta, lambda span: [span.days, span.seconds, span.microseconds], lambda span: timedelta(*span)),
    "decimal": (Decimal, str, Decimal),
    "fraction": (Fraction, str, _parse_fraction),
    "uuid": (UUID, str, UUID),
}
