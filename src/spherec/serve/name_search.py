"""Search items by the words of their names, and users by their ids."""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

_WORD = re.compile(r"\w+")
_LAST = "\U0010ffff"  # sorts after every other character
_MOST_WORDS = 12  # of a query that count


class NameSearch:
    """Finds entries whose ids or names begin with what was typed.

    Every word of a query must begin a word of the name, or the whole query the id. Case and accents do not count. The
    entry whose id was typed comes first, then those whose ids differ in case and accents, then the heaviest ones.

    Args:
        ids: (n,) ids as text.
        names: (n,) names; None where there are none.
        weights: (n,) popularity, by which entries are sorted.
    """

    def __init__(self, ids: Sequence[str], names: Sequence[str | None] | None, weights: NDArray[np.int64]) -> None:
        self._order = np.argsort(-weights, kind="stable")  # (n,) heaviest first
        self._written = ids
        folded = [_fold(text).strip() for text in ids]
        self._by_id = np.argsort(np.array(folded, dtype=object), kind="stable") if folded else np.zeros(0, np.int64)
        self._ids = [folded[index] for index in self._by_id.tolist()]  # ascending
        entries: dict[str, list[int]] = defaultdict(list)
        for index, name in enumerate(names or ()):
            for word in set(_words(name or "")):
                entries[word].append(index)
        self._words = sorted(entries)
        lists = [entries[word] for word in self._words]
        self._starts = np.cumsum([0, *map(len, lists)])  # (w + 1,)
        self._entries = np.fromiter((index for one in lists for index in one), np.int32, int(self._starts[-1]))

    def find(self, query: str, k: int) -> NDArray[np.int64]:
        """Return the indices (≤ k,) of the best entries; for an empty query, of the heaviest."""
        text = _fold(query).strip()
        if not text:
            return self._order[:k]
        begin, end = self._id_range(text)
        is_match = np.zeros(len(self._order), dtype=bool)
        words = list(_words(text))[:_MOST_WORDS]
        if words and len(self._words):
            is_match[:] = True
            for word in words:
                is_match &= self._begins_with(word)
        is_match[self._by_id[begin:end]] = True
        found = self._order[is_match[self._order]][:k]
        typed = self._by_id[begin : bisect_right(self._ids, text)].tolist()
        typed.sort(key=lambda index: self._written[index].strip() != query.strip())
        return np.array([*typed, *(index for index in found.tolist() if index not in typed)], dtype=np.int64)[:k]

    def _id_range(self, text: str) -> tuple[int, int]:
        """Return the range of sorted ids that begin with a text."""
        return bisect_left(self._ids, text), bisect_left(self._ids, text + _LAST)

    def _begins_with(self, word: str) -> NDArray[np.bool_]:
        """Return (n,) whether a name has a word that begins so."""
        first, last = bisect_left(self._words, word), bisect_left(self._words, word + _LAST)
        has_word = np.zeros(len(self._order), dtype=bool)
        has_word[self._entries[self._starts[first] : self._starts[last]]] = True
        return has_word


def _fold(text: str) -> str:
    """Return a text without case and accents."""
    if text.isascii():
        return text.casefold()
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(character for character in plain if not unicodedata.combining(character))


def _words(text: str) -> Iterable[str]:
    return _WORD.findall(_fold(text))
