"""Search by words and ids, against plain loops."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherec.serve.name_search import NameSearch

LETTERS = st.text("abÄäé7 -", max_size=8)


def fold(text):
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(one for one in plain if not unicodedata.combining(one))


def words(text):
    return fold(text).replace("-", " ").split()


@given(st.lists(st.tuples(LETTERS, st.integers(0, 3)), max_size=12), LETTERS, st.integers(1, 5))
def test_finds_what_begins_with_the_words(entries, query, k):
    ids = [f"{n}x{name}" for n, (name, _) in enumerate(entries)]
    names, weights = [name or None for name, _ in entries], np.array([weight for _, weight in entries], dtype=np.int64)
    found = NameSearch(ids, names, weights).find(query, k).tolist()
    asked = fold(query).strip()

    def matches(index):
        has_words = words(asked) and all(any(w.startswith(a) for w in words(names[index] or "")) for a in words(asked))
        return not asked or fold(ids[index]).startswith(asked) or has_words

    expected = sorted(filter(matches, range(len(ids))), key=lambda index: (-weights[index], index))
    assert found == expected[:k]


AB = (["AB", "ab", "Äb", "abc"], None, np.array([9, 1, 2, 8]))
TEN = (["10", "1", "12"], ["one", "ten", "1 more"], np.array([9, 1, 8]))


@pytest.mark.parametrize(
    ("entries", "query", "found"),
    [
        (TEN, "1", [1, 0, 2]),
        (TEN, "ONE", [0]),
        (AB, "ab", [1, 0, 2, 3]),  # as it was typed, then in another case, then those that begin so
        (AB, " Äb ", [2, 0, 1, 3]),
        (([" b"], None, np.array([1])), "b", [0]),
        (([], None, np.zeros(0, dtype=np.int64)), "x", []),
    ],
)
def test_the_id_that_was_typed_comes_first(entries, query, found):
    assert NameSearch(*entries).find(query, 10).tolist() == found
