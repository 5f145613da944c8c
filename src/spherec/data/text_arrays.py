"""Ids and names as plain arrays of numbers, so that a file of arrays can hold them without pickle.

A list of texts becomes two arrays: all texts in UTF-8, one after the other, and where each begins. Ids keep their type:

- numbers are stored as they are, in the array `NAME`;
- strings and bytes as texts, in `NAME.str` or `NAME.bytes`, with `NAME.offsets`;
- everything else as JSON texts that carry the type, in `NAME.json`: `["tuple", [["int", "1"], ["str", "a"]]]`.
"""

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from spherec.data.ids import IdMap
from spherec.errors import DataError

Arrays = Mapping[str, NDArray[Any]]


def encode_ids(ids: IdMap, name: str) -> dict[str, NDArray[Any]]:
    """The ids as arrays called after `name`."""
    values = ids.array
    if values.dtype != object:
        return {name: values}
    kinds = set(map(type, values))
    if kinds <= {str}:
        return _join(list(map(_utf8, values)), name, "str")
    if kinds == {bytes}:
        return _join(list(values), name, "bytes")
    return _join([json_text(one).encode() for one in values], name, "json")


def decode_ids(arrays: Arrays, name: str) -> NDArray[Any]:
    """The ids (n,) that `encode_ids` stored under `name`; a ValueError where they are not whole."""
    if name in arrays:
        return arrays[name]
    kind = next((kind for kind in ("str", "bytes", "json") if f"{name}.{kind}" in arrays), None)
    if kind is None:
        raise ValueError(f"{name} are missing")
    texts = _split(arrays, name, kind)
    if kind == "bytes":
        ids: list[Hashable] = list(texts)
    elif kind == "str":
        ids = list(map(_text, texts))
    else:
        ids = [_untagged(json.loads(text)) for text in texts]
    return np.fromiter(ids, dtype=object, count=len(ids))


def encode_names(names: Sequence[str | None], name: str) -> dict[str, NDArray[Any]]:
    """The names as arrays; an unknown name is stored as an empty text."""
    return _join([_utf8(one or "") for one in names], name, "str")


def decode_names(arrays: Arrays, name: str) -> tuple[str | None, ...] | None:
    """The names that `encode_names` stored, None where there are none."""
    if f"{name}.str" not in arrays:
        return None
    return tuple(_text(text) or None for text in _split(arrays, name, "str"))


def json_text(one: Hashable) -> str:
    """Any id as JSON that carries its type; equal for equal ids only."""
    return json.dumps(_tagged(one))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # half a character is no UTF-8, but a Python string may hold it


def _text(utf8: bytes) -> str:
    return utf8.decode("utf-8", "surrogatepass")


def _join(texts: list[bytes], name: str, kind: str) -> dict[str, NDArray[Any]]:
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    return {
        f"{name}.{kind}": np.frombuffer(b"".join(texts), dtype=np.uint8),
        f"{name}.offsets": np.concatenate(([0], np.cumsum(lengths))),
    }


def _split(arrays: Arrays, name: str, kind: str) -> list[bytes]:
    text, offsets = arrays[f"{name}.{kind}"].tobytes(), arrays[f"{name}.offsets"]
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(text) or np.any(np.diff(offsets) < 0):
        raise ValueError(f"the offsets of {name} do not fit")
    return [text[begin:end] for begin, end in pairwise(offsets.tolist())]


def _tagged(one: Hashable) -> list[Any]:
    """`[type, content]` with the content as JSON."""
    for name, (kind, encode, _) in _CODECS.items():
        if type(one) is kind:  # a derived type would come back as its base
            return [name, encode(one)]
    raise DataError(f"ids of type {type(one).__name__} cannot be saved, got {one!r}; make them strings or tuples")


def _untagged(tagged: list[Any]) -> Any:
    name, content = tagged
    _, _, decode = _CODECS[name]
    return decode(content)


# What each type of id becomes in JSON, and back.
_CODECS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "bool": (bool, bool, bool),
    "int": (int, str, int),
    "float": (float, float.hex, float.fromhex),
    "str": (str, str, str),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "tuple": (tuple, lambda parts: list(map(_tagged, parts)), lambda parts: tuple(map(_untagged, parts))),
    "frozenset": (
        frozenset,
        lambda parts: sorted(map(_tagged, parts), key=json.dumps),  # equal sets may come in different order
        lambda parts: frozenset(map(_untagged, parts)),
    ),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "timedelta": (
        timedelta,
        lambda span: [span.days, span.seconds, span.microseconds],
        lambda parts: timedelta(*parts),
    ),
    "decimal": (Decimal, str, Decimal),
    "fraction": (Fraction, str, Fraction),
    "uuid": (UUID, str, UUID),
}
