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


def test_the_id_that_was_typed_comes_first():
    search = NameSearch(["10", "1", "12"], ["one", "ten", "1 more"], np.array([9, 1, 8]))
    assert search.find("1", 10).tolist() == [1, 0, 2]
    assert search.find("ONE", 10).tolist() == [0]


def test_the_id_with_the_case_that_was_typed_comes_first():
    search = NameSearch(["AB", "ab", "Äb", "abc"], None, np.array([9, 1, 2, 8]))
    assert search.find("ab", 10).tolist() == [1, 0, 2, 3]
    assert search.find(" Äb ", 10).tolist() == [2, 0, 1, 3]
    assert search.find("aB", 2).tolist() == [0, 1]
    assert NameSearch([" b"], None, np.array([1])).find("b", 1).tolist() == [0], "spaces around an id do not count"


@pytest.mark.parametrize("names", [None, []])
def test_nothing_to_search(names):
    assert NameSearch([], names, np.zeros(0, dtype=np.int64)).find("x", 3).tolist() == []
