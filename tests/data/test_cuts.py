from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherec.data.cuts import Cut
from spherec.data.events import Events
from spherec.errors import ArgumentError, DataError
from tests import oracles

PAIRS = st.dictionaries(
    st.tuples(st.integers(0, 5), st.sampled_from("abcdef")), st.integers(-2, 5), min_size=1, max_size=30
)
LEAST = st.integers(0, 4)


def events_of(pairs):
    users, items = zip(*pairs, strict=True)
    return Events.from_columns(users, items, values=list(pairs.values())).merge()


def as_dict(events):
    pairs = zip(events.user_ids[events.users].tolist(), events.item_ids[events.items].tolist(), strict=True)
    return dict(zip(pairs, events.values.tolist(), strict=True))


def outcome(cut, events):
    """The pairs that a cut leaves; none where it says that nothing is left."""
    try:
        return as_dict(cut(events))
    except DataError as error:
        assert "nothing is left after" in str(error)  # noqa: PT017
        return {}


@given(PAIRS, st.none() | LEAST, LEAST, LEAST, st.booleans())
def test_a_cut_is_value_then_users_then_items_or_the_core(pairs, value, per_user, per_item, iterate):
    expected = pairs if value is None else oracles.keep_values(pairs, value)
    if iterate:
        expected = oracles.k_core(expected, per_user, per_item)
    else:
        expected = oracles.keep_items(oracles.keep_users(expected, per_user), per_item)
    cut = Cut(min_value=value, min_per_user=per_user, min_per_item=per_item, iterate=iterate)
    events = events_of(pairs)
    assert outcome(cut, events) == expected
    assert (as_dict(events), len(events.steps)) == (pairs, 1)


@given(st.sets(st.tuples(st.integers(0, 3), st.sampled_from("abc")), min_size=1, max_size=8))
def test_a_core_is_the_largest_part_of_its_kind(pairs):
    """By trying all parts."""

    def stable(part):
        return all(min(Counter(pair[axis] for pair in part).values()) >= 2 for axis in (0, 1))

    parts = [set(part) for size in range(1, len(pairs) + 1) for part in combinations(sorted(pairs), size)]
    largest = max(filter(stable, parts), key=len, default=set())
    cut = Cut(min_per_user=2, min_per_item=2, iterate=True)
    assert set(outcome(cut, events_of(dict.fromkeys(pairs, 1)))) == largest


def test_events_without_values_count_one_each():
    events = Events.from_columns([1, 2], ["a", "b"])
    assert len(Cut(min_value=1)(events)) == 2
    with pytest.raises(DataError, match=r"1\.5"):
        Cut(min_value=1.5)(events)


def test_no_cut_is_no_step():
    events = events_of({(1, "a"): 5})
    assert Cut()(events) is events
    assert Cut(iterate=True)(events).steps == events.steps


@pytest.mark.parametrize(
    ("cut", "named"),
    [
        (Cut(min_value=6), "'value >= 6' .*2 pairs, values from 1 to 5"),
        (Cut(min_per_item=3), "'items with >= 3 users'"),
        (Cut(min_per_item=3, iterate=True), "'until stable"),
    ],
    ids=str,
)
def test_a_cut_that_leaves_nothing_names_the_step(cut, named):
    with pytest.raises(DataError, match=named):
        cut(events_of({(1, "a"): 5, (2, "b"): 1}))


@pytest.mark.parametrize("name", ["min_value", "min_per_user", "min_per_item"])
@pytest.mark.parametrize("least", [np.nan, np.inf, "4"])
def test_a_cut_outside_its_range_or_type_is_refused_with_its_value(name, least):
    with pytest.raises(ArgumentError, match=f"{name} .*{least}"):
        Cut(**{name: least})
    with pytest.raises(ArgumentError, match="-1"):
        Cut(min_per_user=-1)
