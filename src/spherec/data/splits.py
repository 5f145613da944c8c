"""Splits into training and test interactions. Parts keep the user and item indices of the whole.

Every split is seeded; its parts are disjoint and together hold exactly the pairs that went in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from spherec import rng
from spherec.data.cuts import Cut
from spherec.data.events import pair_keys, to_seconds
from spherec.data.ids import IdMap, describe_id, invert, refuse_twins
from spherec.data.interactions import Interactions, merge_item_names
from spherec.data.read.formats import Paths
from spherec.data.read.reading import read
from spherec.errors import ArgumentError, DataError, check_choice, quote


@dataclass(frozen=True)
class Fold:
    """A training part and a test part."""

    train: Interactions
    test: Interactions


@dataclass(frozen=True, eq=False)
class ColdFold(Fold):
    """A split in which some items are cold: nobody has them in the training part."""

    cold_items: NDArray[np.int64]
    "Indices of the cold items, ascending."

    @property
    def cold(self) -> Interactions:
        """The test pairs of cold items."""
        return self.test.filter(np.isin(self.test.indices, self.cold_items), "cold items")

    @property
    def warm(self) -> Interactions:
        """The test pairs of all other items."""
        return self.test.filter(np.isin(self.test.indices, self.warm_items), "warm items")

    @property
    def warm_items(self) -> NDArray[np.int64]:
        """Indices of all other items, ascending."""
        return np.setdiff1d(np.arange(self.test.n_items), self.cold_items)


@dataclass(frozen=True, eq=False)
class Folds(Sequence[Fold]):
    """Folds of a cross-validation: fold i tests on part i and trains on the others. Each is cut on access."""

    data: Interactions
    fold_of_pair: NDArray[np.int64]
    "(E,) the fold in which each pair is tested."
    n_folds: int
    name: str

    def __len__(self) -> int:
        return self.n_folds

    def __getitem__(self, index: int) -> Fold:  # type: ignore[override]
        number = range(self.n_folds)[index]
        return _make_fold(self.data, self.fold_of_pair == number, f"fold {number} of {self.name}")


def k_fold(data: Interactions, folds: int = 4, *, seed: int = 0) -> Folds:
    """Deal each user's items over the folds as evenly as possible: their numbers differ by at most one.

    So do the sizes of the folds. A user with fewer items than folds is tested in some of them only.
    """
    rank = _shuffled_rank(data, seed)
    if not isinstance(folds, int | np.integer) or not 2 <= folds <= max(2, len(data)):
        raise ArgumentError(f"folds must be a whole number from 2 to the {len(data):,} pairs, got {folds}")
    # Shuffled within each user and dealt out round the table, without a new start at the next user.
    start = int(rng.stream(seed, "split start").integers(folds))
    return Folds(data, (rank + start) % folds, int(folds), f"{folds}, seed {seed}")


def ratio(data: Interactions, test: float = 0.2, *, seed: int = 0) -> Fold:
    """Hold out a share of each user's items, rounded up or down at random such that the total fits.

    Every user keeps at least one item for training, so if many have a single item, less than the share is tested.
    """
    return _make_fold(data, choose_share(data, test, seed), f"ratio {test:g}, seed {seed}")


def leave_one_out(data: Interactions, *, by: Literal["random", "time"] = "random", seed: int = 0) -> Fold:
    """Hold out one item of each user: a random one, or the latest. Users with one item keep it for training.

    Of several items at a user's latest time, the seed decides which one is held out: the same data, in any order of
    rows, and the same seed give the same split.
    """
    check_choice("by", by, ("random", "time"))
    rank = _shuffled_rank(data, seed)
    if by == "time":
        rank = invert(np.lexsort((rank, _times(data), data.users)))  # equal times in random order
    is_last = rank == data.indptr[1:][data.users] - 1  # (E,)
    return _make_fold(data, is_last & (data.items_per_user[data.users] > 1), f"leave one out by {by}, seed {seed}")


def by_time(data: Interactions, *, at: float | str | date | None = None, test: float | None = None) -> Fold:
    """Hold out everything from a moment on, the same moment for all users.

    `at` is the moment: a number in the data's unit, a date such as "2004-06-01", or a datetime; UTC by default. `test`
    is a share instead: 0.2 takes the latest moment that leaves at least a fifth for testing.
    """
    times = _times(data)
    if (at is None) == (test is None):
        raise ArgumentError(f"give either at or test, got at={quote(at)} and test={quote(test)}")
    if test is not None:
        check_share("test", test)
        tested = int(np.ceil(round(len(times) * test, 6)))  # 5 * 0.6 is a little more than 3
        moment = float(np.sort(times)[len(times) - tested])
    else:
        try:
            moment = to_seconds(at)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise ArgumentError(f"at must be a date such as '2004-06-01' or a number, got {quote(at)}") from None
    late = times >= moment
    if late.all() or not late.any():
        raise ArgumentError(
            f"nothing is left to {'train' if late.all() else 'test'} on: times run from {times.min():.0f} to "
            f"{times.max():.0f}, split at {moment:.0f}; give a moment between them, in the same unit"
        )
    return _make_fold(data, late, f"by time, from {moment:.15g} on")


def cold_items(data: Interactions, share: float = 0.2, *, test: float = 0.2, seed: int = 0) -> ColdFold:
    """Hold out all pairs of some items, as if they were new, and a share of each user's other items.

    Cold items are drawn from those that somebody has. A user who has no other items is left without training pairs.

    `share` is that of the items that are cold, `test` that of each user's other items, and the seed is of both draws.
    """
    check_share("share", share)
    rank = rng.stream(seed, "cold items").random(data.n_items)  # (I,)
    present = np.flatnonzero(data.users_per_item)  # (≤ I,)
    number = round(share * len(present))
    if not 0 < number < len(present):
        counts = f"{number:,} of {len(present):,} items cold"
        raise ArgumentError(f"nothing is left on one side: share {share:g} makes {counts}; give another share")
    chosen = np.sort(present[np.argsort(rank[present], kind="stable")[:number]])
    is_cold = np.isin(data.indices, chosen)  # (E,)
    tested = is_cold.copy()
    tested[~is_cold] = choose_share(data.filter(~is_cold), test, seed)
    fold = _make_fold(data, tested, f"{share:g} of the items cold, ratio {test:g} of the others, seed {seed}")
    return ColdFold(fold.train, fold.test, chosen)


def given(train: Interactions | Paths, test: Interactions | Paths, **reading: Any) -> Fold:
    """Bring a split that came as two data sets, or as files, under common indices.

    Ids of the training part keep their order; those that only the test part has follow. Files are read by
    `spherec.read` with the options `reading`, the same for both: `given("train.txt", "test.txt", format="adjacency")`.

    A `DataError` is raised if they have pairs in common, or ids that are not written alike: `7` here and `"7"` there,
    or no user or no item in both.
    """
    cut = reading.get("cut") or Cut()
    if cut.min_per_user or cut.min_per_item:
        raise ArgumentError(f"{cut} would count pairs of each part alone; read both parts yourself, and give them here")
    if reading and (isinstance(train, Interactions) or isinstance(test, Interactions)):
        raise ArgumentError(f"Interactions are read already; leave out {', '.join(reading)}, or give files")
    train, test = (part if isinstance(part, Interactions) else read(part, **reading) for part in (train, test))
    user_ids = _unite(train.user_ids, test.user_ids, "user")
    item_ids = _unite(train.item_ids, test.item_ids, "item")
    check_disjoint(train, test)
    names = merge_item_names(train, test)
    return Fold(_reindex(train, user_ids, item_ids, names), _reindex(test, user_ids, item_ids, names))


def choose_share(data: Interactions, share: float, seed: int) -> NDArray[np.bool_]:
    """Choose a share of each user's items, at least one less than all of them (E,)."""
    check_share("test", share)
    rank = _shuffled_rank(data, seed)  # (E,)
    start = rng.stream(seed, "split start").random()
    # A step up of this staircase comes at a `share` of any run of ranks.
    chosen = np.floor((rank + 1) * share + start) > np.floor(rank * share + start)  # (E,)
    whole = np.bincount(data.users[chosen], minlength=data.n_users) == data.items_per_user  # (U,)
    first = rank == data.indptr[:-1][data.users]  # (E,) the first of each user's shuffled items
    return np.asarray(chosen & ~(first & whole[data.users]))


def check_disjoint(train: Interactions, test: Interactions) -> None:
    """Raise a `DataError` if any pair is in both parts."""
    if common := count_common_pairs(train, test):
        raise DataError(f"{common:,} pairs are in both train and test; remove them from one of the two")


def count_common_pairs(train: Interactions, test: Interactions) -> int:
    """Return the number of pairs that two data sets have in common, by external ids."""
    users, items = test.users.astype(np.int64), test.indices.astype(np.int64)  # (E,)
    if train.user_ids != test.user_ids or train.item_ids != test.item_ids:
        users = train.user_ids.find(test.user_ids)[users]  # (E,) -1 where train does not have them
        items = train.item_ids.find(test.item_ids)[items]
    keys = np.where((users < 0) | (items < 0), -1, pair_keys(users, items, train.n_items))
    return int(np.isin(keys, pair_keys(train.users, train.indices, train.n_items)).sum())


def check_share(name: str, value: Any, *, or_none: bool = False) -> None:
    """Raise an `ArgumentError` unless the value is a number between 0 and 1; `or_none` allows 0, too."""
    is_number = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    if not is_number or not (0 < value < 1 or (or_none and value == 0)):
        raise ArgumentError(f"{name} must be {'0 or ' * or_none}a share between 0 and 1, got {quote(value)}")


def _make_fold(data: Interactions, tested: NDArray[np.bool_], name: str) -> Fold:
    masks = {"train": ~tested, "test": tested}
    return Fold(*(data.filter(mask, f"{part} part of split: {name}") for part, mask in masks.items()))


def _shuffled_rank(data: Interactions, seed: int) -> NDArray[np.int64]:
    """Return the position (E,) of each pair when every user's items are shuffled in place."""
    if not isinstance(data, Interactions):
        raise ArgumentError(f"data must be Interactions, got {type(data).__name__}; make them with spherec.read")
    keys = rng.stream(seed, "split").random(len(data))
    return invert(np.lexsort((keys, data.users)))


def _times(data: Interactions) -> NDArray[np.float64]:
    if data.times is None:
        raise DataError("there are no times; name the time column when reading, time= (--time-column)")
    return data.times


def _unite(train: IdMap, test: IdMap, role: str) -> IdMap:
    """Return the ids of train and those that only test has; a `DataError` for other types, or nothing in common."""
    strange = [test[int(index)] for index in np.flatnonzero(train.find(test) < 0)]
    refuse_twins(train, strange, f"the train part has the {role}", "the test part has")
    if len(train) and 0 < len(strange) == len(test):
        ids = f"{role} ids are e.g. {describe_id(train[0])} in train and {describe_id(test[0])} in test"
        raise DataError(f"train and test have no {role} in common: {ids}; give parts with ids written alike")
    return IdMap([*train, *strange]) if strange else train


def _reindex(data: Interactions, user_ids: IdMap, item_ids: IdMap, names: Mapping[Any, str]) -> Interactions:
    users, items = user_ids.find(data.user_ids).astype(np.int32), item_ids.find(data.item_ids).astype(np.int32)
    events = replace(data.events().renumber(users, items), item_ids=item_ids.array)
    events = events.merge("last").with_step("part of a given split")  # in the order of the new indices
    part = Interactions.from_indices(events, user_ids, item_ids)
    return part.with_item_names(names) if names else part
