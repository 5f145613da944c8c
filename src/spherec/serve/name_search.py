"""Search items by the words of their names, and users by their ids."""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

_WORD = re.compile(r"\w+")
_LAST = "\U0010ffff"  # sorts after every other character
_MOST_WORDS = 12  # of a query that count
_LEAST_LETTERS = 4  # of a word for each typo that is forgiven: one in four letters, two in eight


class NameSearch:
    """Finds entries whose ids or names begin with what was typed.

    Every word of a query must begin a word of the name, or the whole query the id. Case and accents do not count. The
    entry whose id was typed comes first, then those whose ids differ in case and accents, then the heaviest ones. If
    fewer are found than asked for, names follow in which words have typos, those with the fewest first.

    Args:
        ids: (n,) ids as text.
        names: (n,) names; None where there are none.
        weights: (n,) popularity, by which entries are sorted.
    """

    def __init__(self, ids: Sequence[str], names: Sequence[str | None] | None, weights: NDArray[np.int64]) -> None:
        self._order = np.argsort(-weights, kind="stable")  # (n,) heaviest first
        self._written = ids
        folded = [_fold(text).strip() for text in ids]
        self._by_id = np.argsort(np.array(folded, dtype=object), kind="stable")
        self._ids = [folded[index] for index in self._by_id.tolist()]  # ascending
        entries: dict[str, list[int]] = defaultdict(list)
        for index, name in enumerate(names or ()):
            for word in set(_WORD.findall(_fold(name or ""))):
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
        words = _WORD.findall(text)[:_MOST_WORDS]
        first, last = _find_range(self._ids, text)
        typos = self._count_typos(words)  # (n,)
        typos[self._by_id[first:last]] = 0
        if np.isfinite(typos).sum() < k:
            typos = np.minimum(typos, self._count_typos(words, forgive=True))
        found = self._order[np.argsort(typos[self._order], kind="stable")][:k]
        typed = self._by_id[first : bisect_right(self._ids, text)].tolist()
        typed.sort(key=lambda index: self._written[index].strip() != query.strip())
        others = (index for index in found[np.isfinite(typos[found])].tolist() if index not in typed)
        return np.array([*typed, *others], dtype=np.int64)[:k]

    def _count_typos(self, words: Sequence[str], *, forgive: bool = False) -> NDArray[np.float64]:
        """Return the typos (n,) with which the words are in the names; infinite where a word is not."""
        typos = np.zeros(len(self._order)) if words else np.full(len(self._order), np.inf)
        for word in words:
            first, last = _find_range(self._words, word)
            best = np.full(len(typos), np.inf)
            best[self._entries[self._starts[first] : self._starts[last]]] = 0
            for distance, at in self._find_similar(word) if forgive else ():
                entries = self._entries[self._starts[at] : self._starts[at + 1]]
                best[entries] = np.minimum(best[entries], distance)
            typos += best
        return typos

    def _find_similar(self, word: str) -> Iterator[tuple[int, int]]:
        """Yield the typos with which words of names are meant, complete or begun, and the places of the words."""
        from rapidfuzz import process
        from rapidfuzz.distance import OSA  # counts letters that are missing, added, changed, or swapped with the next

        if most := len(word) // _LEAST_LETTERS:
            for choices in (self._words, [other[: len(word)] for other in self._words]):
                found = process.extract(word, choices, scorer=OSA.distance, score_cutoff=most, limit=None)
                yield from ((typos, at) for _, typos, at in found)


def _find_range(texts: Sequence[str], beginning: str) -> tuple[int, int]:
    """Return where in ascending texts those are that begin so."""
    return bisect_left(texts, beginning), bisect_left(texts, beginning + _LAST)


def _fold(text: str) -> str:
    """Return a text without case and accents."""
    if text.isascii():
        return text.casefold()
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(character for character in plain if not unicodedata.combining(character))
