"""Search by words and ids, with and without typos, against plain loops."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherec.serve.name_search import NameSearch

pytest.importorskip("rapidfuzz")
LETTERS = st.text("abÄäé7 -", max_size=8)


def fold(text):
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(one for one in plain if not unicodedata.combining(one))


def words(text):
    return fold(text).replace("-", " ").split()


def typos(one, other):
    """Letters added, missing, changed or swapped with the next one, by the table of all beginnings."""
    rows = [[max(i, j) for j in range(len(other) + 1)] for i in range(len(one) + 1)]
    for i, a in enumerate(one, start=1):
        for j, b in enumerate(other, start=1):
            rows[i][j] = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (a != b))
            if i > 1 and j > 1 and (a, one[i - 2]) == (other[j - 2], b):
                rows[i][j] = min(rows[i][j], rows[i - 2][j - 2] + 1)
    return rows[-1][-1]


def mistakes(asked, name):
    """Typos of a word in the word of a name that is meant, complete or begun; infinite if there are too many."""
    least = min((typos(asked, part) for word in words(name) for part in (word, word[: len(asked)])), default=np.inf)
    return least if least <= len(asked) // 4 else np.inf


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
    meant = {n: sum(mistakes(a, names[n] or "") for a in words(asked)) for n in range(len(ids)) if n not in expected}
    meant = {index: least for index, least in meant.items() if words(asked) and least < np.inf}
    assert found == [*expected, *sorted(meant, key=lambda index: (meant[index], -weights[index], index))][:k]


def test_titles_are_found_with_typos():
    titles = ["The Lord of the Rings", "Harry Potter", "Hard Times", "Potted Plants", "The Rings of Saturn"]
    search = NameSearch([f"i{n}" for n in range(5)], titles, np.arange(5))
    assert [search.find(query, 1).tolist() for query in ("lord of the rigns", "hary poter", "hary pot")] == [
        [0],
        [1],
        [1],
    ]
    assert search.find("zzzz yyyy", 3).tolist() == []


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
