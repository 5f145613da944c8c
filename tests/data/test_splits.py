from dataclasses import replace
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.stats import chisquare

from spherec.data import splits
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, DataError
from tests.oracles import baskets, latest_moment, pairs_of

SHARES = st.sampled_from([0.01, 0.05, 0.1, 0.2, 0.25, 0.29, 0.3, 0.5, 0.7, 0.75, 0.8, 0.9, 0.99])
SEEDS = st.integers(0, 2**32)


@st.composite
def interactions(draw, min_pairs=1):
    """A few users with a few items each, some with none; times with ties."""
    rows = draw(st.lists(st.sets(st.integers(0, 9)), min_size=1, max_size=6))
    matrix = np.zeros((len(rows), 10))
    for user, items in enumerate(rows):
        matrix[user, list(items)] = 1
    data = Interactions.from_matrix(matrix)
    assume(len(data) >= min_pairs)
    times = draw(st.lists(st.integers(-3, 6), min_size=len(data), max_size=len(data)))
    named = data.with_item_names({0: "zero", 3: "three"})
    return replace(named, times=np.array(times, dtype=np.float64))


def equal_rows(*counts):
    """Users with these numbers of items, all different."""
    matrix = np.zeros((len(counts), sum(counts)))
    for user, (end, count) in enumerate(zip(np.cumsum(counts), counts, strict=True)):
        matrix[user, end - count : end] = 1
    return Interactions.from_matrix(matrix)


def sizes(data, part):
    """(items in all, items in the part) of each user with any."""
    held = {user: len(items) for user, items in baskets(pairs_of(part)).items()}
    return [(len(items), held.get(user, 0)) for user, items in baskets(pairs_of(data)).items()]


# --- What all splits promise -----------------------------------------------------------------------------------------

SPLITTERS = {
    "k_fold": lambda data, seed: splits.k_fold(data, 3, seed=seed)[1],
    "ratio": lambda data, seed: splits.ratio(data, 0.3, seed=seed),
    "leave_one_out": lambda data, seed: splits.leave_one_out(data, seed=seed),
    "leave_one_out by time": lambda data, seed: splits.leave_one_out(data, by="time", seed=seed),
    "by_time": lambda data, seed: splits.by_time(data, test=0.3),
    "cold_items": lambda data, seed: splits.cold_items(data, 0.5, seed=seed),
}


@pytest.mark.parametrize("split", SPLITTERS.values(), ids=SPLITTERS)
@given(data=interactions(min_pairs=3), seed=SEEDS)
def test_parts_are_disjoint_together_the_whole_and_keep_ids_names_and_times(split, data, seed):
    assume(np.ptp(data.times) > 0)
    try:
        fold = split(data, seed)
    except ArgumentError as error:
        assume("nothing is left" not in str(error))
        raise
    train, test = pairs_of(fold.train), pairs_of(fold.test)
    assert not train.keys() & test.keys()
    assert train | test == pairs_of(data)
    for part in (fold.train, fold.test):
        assert (part.user_ids, part.item_ids, part.item_names) == (data.user_ids, data.item_ids, data.item_names)
    again = split(data, seed)
    assert (again.train, again.test) == (fold.train, fold.test)


@pytest.mark.parametrize("name", ["k_fold", "ratio", "leave_one_out", "cold_items"])
def test_another_seed_gives_another_split(name):
    data = equal_rows(*[10] * 20)
    assert SPLITTERS[name](data, 0).test != SPLITTERS[name](data, 1).test


# --- k folds ---------------------------------------------------------------------------------------------------------


@given(interactions(min_pairs=2), st.integers(2, 6), SEEDS)
def test_folds_are_as_even_as_can_be_for_each_user_and_in_all(data, n_folds, seed):
    assume(n_folds <= len(data))
    folds = splits.k_fold(data, n_folds, seed=seed)
    assert len(folds) == n_folds
    tested = [pairs_of(fold.test) for fold in folds]
    assert sorted(pair for part in tested for pair in part) == sorted(pairs_of(data))  # each pair once
    in_fold = [len(part) for part in tested]
    assert max(in_fold) - min(in_fold) <= 1
    for user in baskets(pairs_of(data)):
        of_user = [len(baskets(part).get(user, ())) for part in tested]
        assert max(of_user) - min(of_user) <= 1


def test_folds_are_a_sequence():
    folds = splits.k_fold(equal_rows(4, 4), 4)
    assert [fold.test for fold in folds] == [folds[index].test for index in range(4)]
    assert folds[-1].test == folds[3].test
    with pytest.raises(IndexError):
        folds[4]


# --- A share of each user --------------------------------------------------------------------------------------------


@given(interactions(), SHARES, SEEDS)
def test_a_share_is_right_within_one_for_each_user_and_leaves_everyone_an_item(data, share, seed):
    fold = splits.ratio(data, share, seed=seed)
    counts = sizes(data, fold.test)
    for n_items, held_out in counts:
        assert held_out < n_items
        assert held_out == n_items - 1 or abs(held_out - share * n_items) < 1 + 1e-9
    spared = sum(held_out == n_items - 1 for n_items, held_out in counts)
    assert -1 - 1e-9 <= share * len(data) - len(fold.test) <= spared + 1 + 1e-9


# --- One of each user ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["random", "time"])
@given(data=interactions(), seed=SEEDS)
def test_exactly_one_item_is_held_out_of_every_user_with_two(data, seed, by):
    fold = splits.leave_one_out(data, by=by, seed=seed)
    assert all(held_out == (n_items > 1) for n_items, held_out in sizes(data, fold.test))
    if by == "time":
        train = pairs_of(fold.train)
        for (user, _), time in pairs_of(fold.test).items():
            assert time >= max(before for (other, _), before in train.items() if other == user)


def test_of_equally_late_items_any_may_be_held_out():
    data = replace(equal_rows(3), times=np.array([1.0, 2.0, 2.0]))
    held_out = {splits.leave_one_out(data, by="time", seed=seed).test.indices[0].item() for seed in range(20)}
    assert held_out == {1, 2}


# --- By time ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(-9, 50), min_size=2, max_size=30), SHARES)
@example([1, 2, 3, 4, 5], 0.8)
@example(list(range(10)), 0.9)
@example(list(range(100)), 0.29)
def test_the_latest_moment_that_leaves_the_share_parts_before_from_after(times, share):
    data = replace(equal_rows(len(times)), times=np.array(times, dtype=np.float64))
    moment = latest_moment(times, share)
    if moment == min(times):
        with pytest.raises(ArgumentError, match="nothing is left to train on"):
            splits.by_time(data, test=share)
        return
    fold = splits.by_time(data, test=share)
    assert fold.train.times.max() < moment == fold.test.times.min()


@given(interactions(min_pairs=2), st.floats(-3, 6))
def test_a_given_moment_belongs_to_the_test(data, moment):
    late = {pair for pair, time in pairs_of(data).items() if time >= moment}
    assume(0 < len(late) < len(data))
    fold = splits.by_time(data, at=moment)
    assert pairs_of(fold.test).keys() == late


@pytest.mark.parametrize(
    "at",
    [
        86400,
        "1970-01-02T02:00:00+02:00",
        datetime(1970, 1, 2),
        datetime(1970, 1, 2, 2, tzinfo=timezone(timedelta(hours=2))),
        datetime(1970, 1, 2).date(),
        np.datetime64("1970-01-02"),
    ],
    ids=repr,
)
def test_a_moment_can_be_a_number_or_a_date_in_utc(at):
    data = replace(equal_rows(3), times=np.array([0.0, 86399.0, 86400.0]))
    assert splits.by_time(data, at=at).test.indices.tolist() == [2]


# --- Chance ----------------------------------------------------------------------------------------------------------

N_SEEDS = 1500


def tally(data, split):
    """How often each pair is held out (E, folds) over seeds; `split` gives the folds under a seed."""
    keys = data.users.astype(np.int64) * data.n_items + data.indices  # (E,)
    return np.sum(
        [
            [np.isin(keys, fold.test.users.astype(np.int64) * data.n_items + fold.test.indices) for fold in split(seed)]
            for seed in range(N_SEEDS)
        ],
        axis=0,
    ).T


@pytest.mark.parametrize("n_items", [8, 6, 3, 1])
def test_each_item_of_a_user_lands_in_each_fold_equally_often(n_items):
    data = equal_rows(n_items, 8)
    counts = tally(data, lambda seed: splits.k_fold(data, 4, seed=seed))  # (E, 4)
    assert chisquare(counts, axis=1).pvalue.min() > 1e-4, counts


@pytest.mark.parametrize(
    "split",
    [SPLITTERS["ratio"], SPLITTERS["leave_one_out"], lambda data, seed: splits.ratio(data, 0.9, seed=seed)],
    ids=["ratio", "leave_one_out", "ratio that would take all"],
)
def test_each_item_of_a_user_is_held_out_equally_often(split):
    data = equal_rows(5, 7)
    counts = tally(data, lambda seed: [split(data, seed)])[:, 0]  # (E,)
    for user in range(data.n_users):
        assert chisquare(counts[data.users == user]).pvalue > 1e-3, counts


def test_a_share_is_held_out_of_every_user_equally_often():
    """Also of those with so few items that only some of them can be tested."""
    data = equal_rows(2, 3, 2, 4, 2)
    counts = tally(data, lambda seed: [splits.ratio(data, 0.25, seed=seed)])  # (E, 1)
    expected = np.full((len(data), 2), [N_SEEDS / 4, N_SEEDS * 3 / 4])
    assert chisquare(np.hstack((counts, N_SEEDS - counts)), expected, axis=1).pvalue.min() > 1e-4, counts.ravel()


# --- What may not be asked -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("split", "named"),
    [
        (lambda data: splits.k_fold(data, 1), "folds .*1"),
        (lambda data: splits.k_fold(data, 7), "folds .*7"),
        (lambda data: splits.k_fold(data, 2.5), "folds .*2.5"),
        (lambda data: splits.k_fold(data, 2, seed=-1), "seed .*-1"),
        (lambda data: splits.ratio(data, 0), "test .*0"),
        (lambda data: splits.ratio(data, float("nan")), "test .*nan"),
        (lambda data: splits.leave_one_out(data, by="date"), "by .*'date'"),
        (lambda data: splits.by_time(data), "at=None and test=None"),
        (lambda data: splits.by_time(data, at=3, test=0.5), "at=3 and test=0.5"),
        (lambda data: splits.by_time(data, at="soon"), "at .*'soon'"),
        (lambda data: splits.by_time(data, at=[3]), r"at .*\[3\]"),
        (lambda data: splits.by_time(data, at=0), "train .*from 0 to 5, split at 0"),
        (lambda data: splits.by_time(data, at=5.5), "test"),
        (lambda data: splits.leave_one_out(replace(data, times=None), by="time"), "time="),
        (lambda data: splits.cold_items(data, "0.2"), "share .*'0.2'"),
        (lambda data: splits.cold_items(data, 0.01), "share 0.01 makes 0 of"),
        (lambda data: splits.cold_items(data, test=1), "test .*1"),
        (lambda _: splits.ratio([1]), "list"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_false_arguments_are_refused_with_their_value(split, named):
    data = replace(equal_rows(3, 3), times=np.arange(6, dtype=np.float64))
    with pytest.raises((ArgumentError, DataError), match=named):
        split(data)


# --- Cold items ------------------------------------------------------------------------------------------------------


@given(data=interactions(min_pairs=3), seed=SEEDS, share=st.sampled_from([0.2, 0.5, 0.7]))
def test_cold_items_are_in_nobodys_training_and_the_others_are_split_by_ratio(data, seed, share):
    present = np.flatnonzero(data.users_per_item)
    assume(0 < round(share * len(present)) < len(present))
    fold = splits.cold_items(data, share, test=0.3, seed=seed)
    cold = set(fold.cold_items.tolist())
    assert len(cold) == round(share * len(present))
    assert cold <= set(present.tolist())
    assert cold.isdisjoint(fold.train.indices.tolist())
    assert set(fold.cold.indices.tolist()) == cold
    assert sorted([*cold, *fold.warm_items.tolist()]) == list(range(data.n_items))
    assert pairs_of(fold.cold) | pairs_of(fold.warm) == pairs_of(fold.test)
    others = data.filter(~np.isin(data.indices, fold.cold_items))
    assert pairs_of(fold.warm) == pairs_of(splits.ratio(others, 0.3, seed=seed).test)


def test_every_item_is_cold_equally_often():
    data = equal_rows(*[1] * 10)
    drawn = np.concatenate([splits.cold_items(data, 0.2, seed=seed).cold_items for seed in range(500)])
    assert chisquare(np.bincount(drawn, minlength=10)).pvalue > 1e-4
