"""A split that came as two data sets."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spherec.data import splits
from spherec.data.interactions import Interactions
from spherec.errors import DataError
from tests.oracles import pairs_of, typed


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from("abcd"), st.booleans()), min_size=2, unique_by=lambda row: row[:2]
    )
)
def test_given_parts_come_under_common_indices_with_nothing_lost(rows):
    parts = [[(user, item) for user, item, tested in rows if tested == which] for which in (False, True)]
    assume(all(parts))
    assume(all({row[place] for row in parts[0]} & {row[place] for row in parts[1]} for place in (0, 1)))
    train, test = (
        Interactions.from_pairs(*zip(*part, strict=True), times=np.arange(len(part), dtype=float)) for part in parts
    )
    fold = splits.given(train, test)
    assert pairs_of(fold.train) == pairs_of(train)
    assert pairs_of(fold.test) == pairs_of(test)
    for part in (fold.train, fold.test):
        assert list(part.user_ids) == list(dict.fromkeys([*train.user_ids, *test.user_ids]))
        assert list(part.item_ids) == list(dict.fromkeys([*train.item_ids, *test.item_ids]))


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ([1, 2], [2**64 - 1, 2]),
        ([2**53, 2**53 + 1, 1], [2.0, 1.0]),
        (np.array([2**64 - 1, 2], dtype=np.uint64), [1, 2]),
    ],
    ids=str,
)
def test_given_parts_with_ids_of_different_types_keep_them(train, test):
    """The last id is in both, as train has it."""
    parts = [
        Interactions.from_pairs([*train, train[0]], [*["x"] * len(train), "y"]),
        Interactions.from_pairs(test, ["y"] * len(test)),
    ]
    fold = splits.given(*parts)
    assert typed(list(fold.train.user_ids)) == typed([*parts[0].user_ids, *map(int, test[:-1])])
    assert pairs_of(fold.train) == pairs_of(parts[0])
    assert pairs_of(fold.test) == pairs_of(parts[1])


@pytest.mark.parametrize("role", ["user", "item"])
@pytest.mark.parametrize(
    ("train", "test", "told"),
    [
        (["7", "8"], [9, 7], r"{role} '7' \(str\), .*7 \(int\)"),
        ([7, 8], ["8", "x"], r"{role} 8 \(int\), .*'8' \(str\)"),
        (["a"], ["A"], "no {role} in common"),
    ],
)
def test_given_parts_whose_ids_are_not_written_alike_are_refused(role, train, test, told):
    parts = [
        Interactions.from_pairs(*((ids, others) if role == "user" else (others, ids)))
        for ids, others in ((train, ["x"] * len(train)), (test, ["x"] * len(test)))
    ]
    with pytest.raises(DataError, match=told.format(role=role)):
        splits.given(*parts)


def test_a_pair_in_both_given_parts_is_refused():
    train, test = Interactions.from_pairs([1, 1], ["a", "b"]), Interactions.from_pairs([2, 1], ["a", "b"])
    with pytest.raises(DataError, match="1 pairs are in both train and test"):
        splits.given(train, test)


def test_names_of_given_parts_are_brought_together_and_those_of_train_come_first():
    train = Interactions.from_pairs([1, 1], ["a", "c"]).with_item_names({"a": "A"})
    test = Interactions.from_pairs([1, 2], ["b", "a"]).with_item_names({"a": "other", "b": "B"})
    fold = splits.given(train, test)
    assert fold.train.item_names == fold.test.item_names == ("A", None, "B")
    bare = splits.given(replace(train, item_names=None), replace(test, item_names=None))
    assert bare.train.item_names is bare.test.item_names is None
