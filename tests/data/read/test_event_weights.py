"""Kinds of events: weights, refunds, half-life and dislikes, against a plain loop over the log."""

import random

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spherec
from spherec.data.cuts import Cut
from spherec.data.interactions import Interactions, merge_dislikes
from spherec.data.read import read
from spherec.errors import ArgumentError, DataError

WEIGHTS, CANCELS = {"view": 1, "cart": 3.5, "buy": 10, "hate": -4}, {"refund": "buy", "remove": "cart"}
KINDS = [*WEIGHTS, *CANCELS, "share", None]
DAY = 86_400
LOGS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.sampled_from(KINDS), st.integers(0, 400)), min_size=1
)


def weigh(log, *, half_life=None, cap=None, with_times=True):
    """{(user, item): weight} of a log of (user, item, kind, day)."""
    log = [row for row in log if row[2] in (*WEIGHTS, *CANCELS)]
    newest = max((day for *_, day in log), default=0)
    of_pair = {}
    for user, item, kind, day in sorted(log, key=lambda row: row[3]) if with_times else log:
        events = of_pair.setdefault((user, item), [])
        if kind in WEIGHTS:
            events.append((kind, day))
            continue
        for place in reversed(range(len(events))):
            if events[place][0] == CANCELS[kind]:
                del events[place]
                break
    sums = {
        pair: sum(WEIGHTS[kind] * (0.5 ** ((newest - day) / half_life) if half_life else 1) for kind, day in events)
        for pair, events in of_pair.items()
    }
    return {pair: weight if cap is None else min(weight, cap) for pair, weight in sums.items() if weight}


def told(data):
    """Weights of pairs and of dislikes, by external ids; those of dislikes are not known any more."""
    pairs = zip(data.users.tolist(), data.indices.tolist(), strict=True)
    found = {(data.user_ids[u], data.item_ids[i]): w for (u, i), w in zip(pairs, data.weights, strict=True)}
    disliked = [] if data.disliked is None else data.disliked.tolist()
    return found, {(data.user_ids[u], data.item_ids[i]) for u, i in disliked}


def same(data, expected):
    positives = {pair: weight for pair, weight in expected.items() if weight > 0}
    users, items = {user for user, _ in positives}, {item for _, item in positives}
    found, disliked = told(data)
    assert found == pytest.approx(positives)
    assert disliked == {(u, i) for (u, i), weight in expected.items() if weight < 0 and u in users and i in items}


@given(log=LOGS, half_life=st.sampled_from([None, 30, 1]), cap=st.sampled_from([None, 12.0]), with_times=st.booleans())
def test_a_frame_is_weighed_as_by_a_plain_loop(log, half_life, cap, with_times):
    with_times |= half_life is not None
    frame = pl.DataFrame(log, schema={"u": pl.Int64, "i": pl.String, "k": pl.String, "day": pl.Int64}, orient="row")
    columns = {"user": "u", "item": "i", "event": "k", "time": "day" if with_times else None}
    expected = weigh(log, half_life=half_life, cap=cap, with_times=with_times)
    if not any(weight > 0 for weight in expected.values()):
        with pytest.raises(DataError):
            Interactions.from_frame(frame, **columns, weights=WEIGHTS, cancels=CANCELS, half_life=half_life)
        return
    how = {"weights": WEIGHTS, "cancels": CANCELS, "half_life": half_life, "max_weight": cap}
    data = Interactions.from_frame(frame, **columns, **how)
    same(data, expected)
    if with_times:
        assert data.times.max() <= max(day for *_, kind, day in log if kind in (*WEIGHTS, *CANCELS))


@pytest.fixture(scope="module")
def log():
    draw = random.Random(0)
    rows = [(draw.randrange(60), draw.randrange(40), draw.choice(KINDS), draw.randrange(90)) for _ in range(9000)]
    return [(f"u{user}", f"i{item}", kind, day) for user, item, kind, day in rows]


@pytest.fixture(scope="module")
def file(log, tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.csv"
    dates = np.datetime64("2024-01-01") + np.arange(90)
    path.write_text(
        "customer_id,sku,event_type,timestamp,quantity\n"
        + "".join(f"{user},{item},{kind or ''},{dates[day]},2\n" for user, item, kind, day in log)
    )
    return path


HOW = {"event": "event_type", "weights": WEIGHTS, "cancels": CANCELS, "half_life": "30d"}


def test_a_file_is_weighed_as_by_a_plain_loop_and_says_what_was_left_out(log, file, blocks_of, recwarn):
    notes = []
    with blocks_of(1000):
        data = read(file, **HOW, report=notes.append)
    same(data, weigh(log, half_life=30))
    assert not recwarn.list
    counts = {kind: sum(row[2] == kind for row in log) for kind in ("share", None)}
    left = f"{counts['share']:,} events of kind 'share'", f"{counts[None]:,} events of no kind"
    assert all(part in data.steps[0].name for part in left)
    assert all(any(part in note for note in notes) for part in left)
    assert "view 1, cart 3.5, buy 10, hate -4; refund cancels buy; " in data.steps[1].name
    assert "half-life 30d, in order of time" in data.steps[1].name
    assert f"{len(data.disliked):,} dislikes" in data.steps[1].name
    assert 0 < read(file, event="event_type", weights={"buy": 2}, half_life="30d").weights.min() < 2
    assert read(file, **HOW, weigh=False).weights is None
    assert read(file, **HOW, cut=Cut(min_value=5)).weights.min() >= 5


def test_a_half_life_alone_weighs_each_event_by_its_age(tmp_path):
    (tmp_path / "a.csv").write_text("user,item,time\nu,i,1700000000000\nu,i,1700000000000\nu,j,1699913600000\n")
    days = read(tmp_path / "a.csv", time="time", half_life="1d")
    assert days.weights.tolist() == [2, 0.5], "times are milliseconds"
    assert read(tmp_path / "a.csv", time="time", half_life=1000 * DAY) == days


def test_dislikes_go_through_files_cuts_and_splits(file, tmp_path):
    data = read(file, **HOW)
    data.save(tmp_path / "x.npz")
    assert read(tmp_path / "x.npz") == data
    assert data != read(file, **{**HOW, "weights": {**WEIGHTS, "hate": 0}})
    fold = spherec.splits.ratio(data, 0.3)
    again = spherec.splits.given(fold.train, fold.test)
    assert np.array_equal(again.train.disliked, data.disliked)
    smaller = data.cut(Cut(min_per_user=int(np.median(data.items_per_user)), min_per_item=20))
    users, items = smaller.user_ids, smaller.item_ids
    assert told(smaller)[1] == {(user, item) for user, item in told(data)[1] if user in users and item in items}
    assert 0 < len(smaller.disliked) < len(data.disliked)
    for user in range(data.n_users):
        expected = [item for one, item in data.disliked.tolist() if one == user]
        assert data.disliked_by(user).tolist() == expected
    with pytest.raises(DataError, match="disliked"):
        Interactions(data.indptr, data.indices, data.user_ids, data.item_ids, disliked=data.disliked[::-1])


def test_what_is_disliked_is_never_recommended_and_stays_so_in_an_update(file, tmp_path):
    data = read(file, **HOW)
    model = spherec.CML(dim=8, epochs=1, device="cpu").fit(data, validation=0)
    model.save(tmp_path / "m.spherec")
    loaded = spherec.load(tmp_path / "m.spherec")
    model.save(tmp_path / "parts.spherec", shards=2)
    for path in (tmp_path / "m.spherec", tmp_path / "parts.spherec"):
        part = spherec.load(path, users=(1, 3), items=(0, 2)).data
        assert told(part)[1] == {(u, i) for u, i in told(data)[1] if u in part.user_ids and i in part.item_ids}
    gone = model.data.user_ids[int(data.disliked[0, 0])]
    loaded.remove_users([gone])
    assert told(loaded.data)[1] == {(u, i) for u, i in told(data)[1] if u != gone}
    loaded = spherec.load(tmp_path / "m.spherec")
    user, disliked = next((user, data.disliked_by(user)) for user in range(60) if len(data.disliked_by(user)) > 1)
    items = [data.item_ids[int(item)] for item in disliked]
    changed = Interactions.from_pairs([data.user_ids[user], "new"], [items[0], items[0]])
    loaded.partial_fit(changed, epochs=1, validation=0)
    for one, never in ((model, items), (loaded, items[1:])):
        listed = {row.item for row in one.recommend(data.user_ids[user], k=40, exclude_seen=False)}
        assert not listed & set(never)
    assert items[0] in listed, "a new positive pair is no dislike"
    assert merge_dislikes(data, data).tolist() == data.disliked.tolist()


def test_users_with_too_many_items_are_left_out_and_named(file, tmp_path):
    bot = "".join(f"bot,i{item},view,2024-01-01,1\n" for item in range(40))
    (tmp_path / "bot.csv").write_text(file.read_text() + bot)
    data = read(tmp_path / "bot.csv", **HOW, cut=Cut(max_per_user=39))
    assert data.steps[-1].name == "users with <= 39 items, without 'bot'"
    assert told(data)[0].keys() == told(read(file, **HOW))[0].keys()


@pytest.mark.parametrize(
    ("how", "error", "said"),
    [
        ({"event": "event_type"}, ArgumentError, "--event-weights"),
        ({"weights": WEIGHTS}, ArgumentError, "--event-column"),
        ({**HOW, "value": "quantity"}, ArgumentError, "leave out value"),
        ({**HOW, "duplicates": "sum"}, ArgumentError, "leave out duplicates"),
        ({**HOW, "weights": {"view": "much"}, "cancels": None}, ArgumentError, "'view'.*'much'"),
        ({**HOW, "weights": {"view": -1}, "cancels": None}, ArgumentError, "more than 0"),
        ({**HOW, "cancels": {"view": "cart"}}, ArgumentError, "'view': 'cart'"),
        ({**HOW, "cancels": {"refund": "sale"}}, ArgumentError, "'refund': 'sale'"),
        ({**HOW, "half_life": "90x"}, ArgumentError, "'90x'"),
        ({**HOW, "half_life": 0}, ArgumentError, "got 0"),
        ({**HOW, "max_weight": 0}, ArgumentError, "max_weight"),
        ({**HOW, "weights": {"purchase": 1}, "cancels": None}, DataError, "of kind purchase.*of kind 'view'"),
        ({**HOW, "event": "kind"}, DataError, "no column 'kind'"),
        ({**HOW, "format": "adjacency"}, DataError, "no column 'event_type'"),
    ],
    ids=str,
)
def test_what_cannot_be_weighed_is_refused_with_its_value(file, how, error, said):
    with pytest.raises(error, match=said):
        read(file, **how)


def test_a_half_life_needs_times(tmp_path):
    (tmp_path / "a.csv").write_text("user,item\nu,i\n")
    with pytest.raises(DataError, match="--time-column"):
        read(tmp_path / "a.csv", half_life="1d")
