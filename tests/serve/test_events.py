"""Events over HTTP: stored for good, counted for the next list of their user, read once by an update."""

import json
import random
import shutil
import signal
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress

import httpx
import pytest

from spherec.data.event_store import Event, EventStore
from spherec.errors import DataError
from spherec.recommender import load
from spherec.serve import ServeOptions
from tests.recommender.models import ITEMS, model_of, small
from tests.serve.running import in_process, in_thread, wait_until
from tests.serve.test_parity import pairs, rows


@pytest.fixture(scope="module")
def postgres():
    """The folder of a running PostgreSQL; a test that asks for it is skipped where there is none."""
    server = pytest.importorskip("tests.postgres").server
    with server() as folder:
        yield folder


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """The address of a new store."""
    if request.param == "sqlite":
        return str(tmp_path / "events.db")
    psycopg, folder = pytest.importorskip("psycopg"), request.getfixturevalue("postgres")
    name = f"events{time.monotonic_ns()}"
    with psycopg.connect(f"postgresql://postgres@/postgres?host={folder}", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"postgresql://postgres@/{name}?host={folder}"


@pytest.fixture
def store(place):
    with closing(EventStore(place)) as store:
        yield store


@pytest.fixture
def path(model_file, tmp_path):
    return shutil.copy(model_file, tmp_path / "model.spherec")


def post(address, *events):
    body = {"events": [dict(zip(("user", "item", "kind"), event, strict=False)) for event in events]}
    return httpx.post(f"{address}/events", json=body, timeout=30)


def items_for(address, user, **how):
    answer = httpx.get(f"{address}/recommend/{user}", params={"k": 5, **how}, timeout=30).json()
    return pairs(answer["items"])


@contextmanager
def serving(path, place, **options):
    with in_thread(ServeOptions(path, events=place, watch_seconds=0.05, log_requests=False, **options)) as address:
        yield address


# --- the store ---


def test_events_are_read_once_and_found_by_models_that_do_not_know_them(store):
    begin = time.time()
    events = [Event("u1", "i2", "buy", 3.0), Event("O'Neil; --", "i%s?", None, 1.0), Event("u1", "i1", None, 2.0)]
    store.add(events[:1])
    store.add(events[1:])
    assert store.find(["u1", "x"], 0.0) == {"u1": [events[0], events[2]]}
    with pytest.raises(KeyError), store.read_new() as first:
        raise KeyError  # of an update that fails
    with store.read_new() as again:
        store.add([Event("u2", "i1", None, 9.0)])  # while it trains
    assert first == again == [events[1], events[2], events[0]]
    assert store.find(["u1"], begin) == {"u1": [events[0], events[2]]}, "an older model may be put back"
    assert store.find(["u1"], time.time()) == {}
    with store.read_new() as rest:
        assert [event.user for event in rest] == ["u2"]


def test_a_database_that_fails_is_named_and_asked_again(tmp_path):
    store = EventStore(tmp_path / "events.db")
    with sqlite3.connect(tmp_path / "events.db") as other:
        other.execute("ALTER TABLE events RENAME TO hidden")
        with pytest.raises(DataError, match=r"events\.db"):
            store.add([Event("u", "i", None, 0.0)])
        other.execute("ALTER TABLE hidden RENAME TO events")
    store.add([Event("u", "i", None, 0.0)])
    with pytest.raises(DataError) as refused:
        EventStore("postgresql://me:secret@127.0.0.1:1/db")
    assert "secret" not in str(refused.value)


# --- over HTTP ---


def test_events_count_for_the_next_list_of_their_user(path, place, store):
    model = load(path)
    own = [model.data.item_ids[item] for item in model.data.items_of(1)]
    new = [item for item in ITEMS if item not in own][:2]
    with serving(path, place) as one, serving(path, place) as other:
        assert items_for(one, "u1") == rows(model.recommend("u1", 5))
        assert post(one, ("u1", new[0]), ("u1", "not in the model"), ("zoe", "i4")).json()["stored"] == 3
        for address in (one, other):
            assert items_for(address, "u1") == rows(model.recommend_for([*own, new[0]], 5))
            assert items_for(address, "zoe") == rows(model.recommend_for(["i4"], 5))
            assert items_for(address, "u2") == rows(model.recommend("u2", 5))
        post(other, ("u1", new[1]), ("u3", own[0]))
        expected = rows(model.recommend_for([*own, *new], 5))
        assert items_for(one, "u1") == expected
        with store.read_new():
            model_of(small(), seed=9, mainstream=0.4).save(path)  # an update
        wait_until(lambda: httpx.get(f"{one}/model").json()["model"] == load(path).artifact.checksum)
        assert items_for(one, "u1") == rows(load(path).recommend("u1", 5)), "the new model knows"
        assert httpx.get(f"{one}/recommend/zoe").status_code == 404


def test_events_outlast_the_server_and_kinds_that_do_not_count_are_stored(path, place, store):
    with serving(path, place) as address:
        post(address, ("zoe", "i4", "buy"), ("zoe", "i5", "view"), ("zoe", "i6"))
    with serving(path, place, event_kinds=["buy"]) as address:
        assert items_for(address, "zoe") == rows(load(path).recommend_for(["i4"], 5))
    with store.read_new() as events:
        assert sorted(event.item for event in events) == ["i4", "i5", "i6"]


def test_lists_shown_and_events_on_shown_items_are_counted(path, tmp_path):
    with serving(path, tmp_path / "events.db") as address:
        (first, _), (second, _), *_ = items_for(address, "u1")
        post(address, ("u1", first), ("u1", first), ("u2", second), ("u1", "never shown"))
        post(address, ("u1", second), ("u1", first))
        text = httpx.get(f"{address}/metrics").text
    for line in ("lists_total 1.0", "events_total 6.0", "events_on_shown_items_total 2.0"):
        assert f"spherec_{line}\n" in text


@pytest.mark.parametrize("event", [("", "i1"), ("u1", "NaN"), ("u\0", "i1"), ("u1", "\ud800"), ("u1",), ("u1", 1.5)])
def test_events_that_are_none_are_refused(path, tmp_path, client, event):
    with serving(path, tmp_path / "events.db") as address:
        body = {"events": [{"user": "u1", "item": "i1"}, dict(zip(("user", "item"), event, strict=False))]}
        content, mark = json.dumps(body), {"Content-Type": "application/json"}  # httpx writes no half characters
        assert httpx.post(f"{address}/events", content=content, headers=mark).status_code == 422
        assert EventStore(tmp_path / "events.db").find(["u1"], 0.0) == {}
    assert post(client.base_url, ("u1", "i1")).status_code == 403


# --- killed ---


def ask_and_post(address, number, acknowledged, stop):
    """Post events with items of their own, and ask for lists, until the server is gone."""
    with suppress(httpx.TransportError), httpx.Client(base_url=address, timeout=30) as client:
        for count in range(10_000):
            event = {"user": f"u{number}", "item": f"{address}-{number}-{count}"}
            if client.post("/events", json={"events": [event]}).status_code == 200:
                acknowledged.add(event["item"])
            client.get(f"/recommend/u{number % 12}")
            if stop.is_set():
                return


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_at_sigkill(path, place, store):
    acknowledged, rng = set(), random.Random(0)
    for _ in range(20):
        stop, before = threading.Event(), len(acknowledged)
        with in_process(path, "--events", place, "--no-log-requests") as (address, process), ExitStack() as last:
            threads = last.enter_context(ThreadPoolExecutor(64))
            last.callback(stop.set)
            asking = [threads.submit(ask_and_post, address, number, acknowledged, stop) for number in range(64)]
            wait_until(lambda before=before: len(acknowledged) > before)
            time.sleep(rng.uniform(0, 0.7))
            process.send_signal(signal.SIGKILL)
            for one in asking:
                one.result()
    with store.read_new() as events:
        stored = [event.item for event in events]
    assert len(stored) == len(set(stored)), "none twice"
    assert len(acknowledged) > 500
    assert acknowledged <= set(stored)


@pytest.mark.slow
def test_every_worker_knows_an_event_at_once(path, place):
    model = load(path)
    with in_process(path, "--workers", 2, "--events", place) as (address, _):
        for number in range(40):
            items = random.Random(number).sample(ITEMS, 3)
            assert post(address, *((f"new{number}", item) for item in items)).status_code == 200
            assert items_for(address, f"new{number}") == rows(model.recommend_for(items, 5))
        text = httpx.get(f"{address}/metrics").text
    assert "spherec_lists_total 40.0" in text
    assert "spherec_events_total 120.0" in text
