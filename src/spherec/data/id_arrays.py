"""Ids and names as arrays of plain numbers, for files.

- Ids that are numbers are stored as they are, in the array `NAME`;
- texts in UTF-8, one after the other, in `NAME.str`, and where each begins in `NAME.offsets`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherec.data.ids import IdMap

_Arrays = Mapping[str, NDArray[Any]]

_ALL = slice(None)
_UTF8 = "utf-8", "surrogatepass"  # half a character is not UTF-8, but a Python string may hold it


def encode_ids(ids: IdMap, name: str) -> dict[str, NDArray[Any]]:
    """Return the ids as arrays called after `name`."""
    return _join_texts(ids.array.tolist(), name) if ids.are_texts else {name: ids.array}


def decode_ids(arrays: _Arrays, name: str, rows: slice = _ALL) -> NDArray[Any]:
    """Return the ids (n,) that `encode_ids` stored under `name`, or some of them.

    Raises a ValueError where they are not whole.
    """
    if name in arrays:
        return arrays[name][rows]
    texts = _split_texts(arrays, name, rows)
    return np.fromiter(texts, dtype=object, count=len(texts))


def encode_names(names: Sequence[str | None], name: str) -> dict[str, NDArray[Any]]:
    """Return the names as arrays; an unknown name is stored as an empty text."""
    return _join_texts([text or "" for text in names], name)


def decode_names(arrays: _Arrays, name: str, rows: slice = _ALL) -> tuple[str | None, ...] | None:
    """Return the names that `encode_names` stored, or some of them; None where there are none."""
    if f"{name}.str" not in arrays:
        return None
    return tuple(text or None for text in _split_texts(arrays, name, rows))


def _join_texts(texts: Sequence[str], name: str) -> dict[str, NDArray[Any]]:
    encoded = [text.encode(*_UTF8) for text in texts]
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    return {
        f"{name}.str": np.frombuffer(b"".join(encoded), dtype=np.uint8),
        f"{name}.offsets": np.concatenate(([0], np.cumsum(lengths))),
    }


def _split_texts(arrays: _Arrays, name: str, rows: slice) -> list[str]:
    if f"{name}.str" not in arrays:
        raise ValueError(f"{name} are missing")
    text, offsets = arrays[f"{name}.str"].tobytes(), arrays[f"{name}.offsets"]
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(text) or np.any(np.diff(offsets) < 0):
        raise ValueError(f"the offsets of {name} do not fit")
    begins, ends = offsets[:-1][rows].tolist(), offsets[1:][rows].tolist()
    return [text[begin:end].decode(*_UTF8) for begin, end in zip(begins, ends, strict=True)]
