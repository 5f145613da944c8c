"""Events from databases: SQLite, and a real PostgreSQL in the slow tests."""

import sqlite3

import numpy as np
import pytest

import spherec
from spherec.data.cuts import Cut
from spherec.data.read import read, read_events
from spherec.data.read.database import hide_password
from spherec.data.read.formats import Reading
from spherec.distributed.preparation import prepare_partitions
from spherec.errors import ArgumentError, DataError, MissingPackageError

pytest.importorskip("adbc_driver_sqlite", reason="needs the extra database")
pytestmark = pytest.mark.filterwarnings("ignore::spherec.errors.UnreadValuesWarning")
ROWS = [(f"u{number % 7}", number % 5, ("view", "buy")[number % 3 == 0], number / 2, number) for number in range(60)]
CSV = "customer_id,sku,event_type,amount,ts\n" + "".join(f"{','.join(map(str, row))}\n" for row in ROWS)
HOW = {"event": "event_type", "weights": {"view": 1, "buy": 5}, "half_life": 20}


@pytest.fixture
def shop(tmp_path):
    """The address of a database with a table of events, which has an odd name, too."""
    with sqlite3.connect(tmp_path / "my shop.db") as connection:
        connection.execute("create table events (customer_id text, sku integer, event_type text, amount real, ts real)")
        connection.executemany("insert into events values (?, ?, ?, ?, ?)", ROWS)
        connection.execute('create view "the ""events""" as select * from events')
        connection.execute("create table empty (user text, item text)")
    return f"sqlite:///{tmp_path}/my shop.db"


def same(data, expected):
    """Item ids of a CSV are texts."""
    assert list(map(str, data.item_ids)) == list(expected.item_ids)
    assert (list(data.user_ids), data.times.tolist()) == (list(expected.user_ids), expected.times.tolist())
    np.testing.assert_allclose(data.weights, expected.weights)
    return True


@pytest.mark.parametrize("table", ["events", "main.events", "the%20%22events%22"])
def test_a_table_is_read_as_the_same_csv(shop, write, tmp_path, table):
    notes = []
    data = read(f"{shop}?table={table}", **HOW, report=notes.append)
    assert same(data, read(write("a.csv", CSV), **HOW))
    assert "customer_id, item: sku" in notes[0]
    rated = Reading(value="amount", cut=Cut(min_value=3), duplicates="sum")
    parts = prepare_partitions(f"{shop}?table={table}", rated, tmp_path / "p", 2)
    assert parts.read() == read(f"{shop}?table={table}", value="amount", cut=Cut(min_value=3), duplicates="sum")


def test_a_query_is_asked_and_its_columns_are_recognised(shop):
    query = "select customer_id as user, sku as item from events where event_type = 'buy' order by ts;"
    events = read_events(shop, Reading(query=query, limit=3))
    assert events.item_ids[events.items].tolist() == [row[1] for row in ROWS if row[2] == "buy"][:3]
    assert len(read(shop, query=query, duplicates="sum")) == len({row[:2] for row in ROWS if row[2] == "buy"})


@pytest.mark.parametrize(
    ("path", "how", "error", "said"),
    [
        ("{shop}?table=evens", {}, DataError, "no such table"),
        ("{shop}?table=empty", {}, DataError, "no rows"),
        ("{shop}?table=events", {"user": "who"}, DataError, "no column 'who', only 'customer_id'"),
        ("{shop}?table=events", {"value": "event_type"}, DataError, "row 0: column 'event_type' is 'buy'"),
        ("{shop}", {}, ArgumentError, "table=NAME"),
        ("{shop}?table=events", {"query": "select 1"}, ArgumentError, "not both"),
        ("{shop}", {"query": "delete from events"}, DataError, "syntax error"),
        ("a.csv", {"query": "select 1"}, ArgumentError, "address of a database"),
        (["{shop}?table=events", "a.csv"], {}, ArgumentError, "read alone"),
        ("sqlite:///no-such.db?table=events", {}, DataError, r"no-such\.db: No such file"),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_one_sentence(shop, path, how, error, said):
    paths = [one.replace("{shop}", shop) for one in ([path] if isinstance(path, str) else path)]
    with pytest.raises(error, match=said):
        read(paths, **how)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at postgresql://me:sec:r@et@host/db failed", "at postgresql://me@host/db failed"),
        ("postgresql://host/db?user=me&password=secret&x=1", "postgresql://host/db?user=me&password=…&x=1"),
        ("sqlite:///a.db", "sqlite:///a.db"),
    ],
)
def test_passwords_are_never_shown(text, shown, monkeypatch):
    assert hide_password(text) == shown
    monkeypatch.setitem(__import__("sys").modules, "adbc_driver_postgresql.dbapi", None)
    with pytest.raises(MissingPackageError, match=r"pip install '\.\[database\]'"):
        read("postgresql://me:secret@host/db?table=t")


@pytest.mark.slow
def test_postgresql_is_read_as_the_same_csv_and_keeps_its_password_to_itself(write):
    pytest.importorskip("adbc_driver_postgresql", reason="needs the extra database")
    from tests.postgres import Database, server

    with server() as folder:
        database = Database(folder, "shop")
        database.run(
            "shop",
            "create type kind as enum ('view', 'buy');"
            "create table events (id uuid default gen_random_uuid(), customer_id text, sku bigint, event_type kind,"
            " amount numeric(9, 2), ts double precision, at timestamptz default '1970-01-02T00:00:00Z');"
            "insert into events (customer_id, sku, event_type, amount, ts) values "
            + ",".join(f"('{user}', {item}, '{kind}', {amount}, {ts})" for user, item, kind, amount, ts in ROWS)
            + "; create role me login password 'secret'; grant select on events to me;",
        )
        url = f"postgresql://me:secret@/shop?host={folder}"
        assert same(read(f"{url}&table=public.events", **HOW), read(write("a.csv", CSV), **HOW))
        ids = read(url, query="select id as user, sku as item, amount, at from events", value="amount", time="at")
        assert (ids.n_users, set(ids.times)) == (60, {86_400.0})
        assert spherec.read(f"{url}&table=events", value="amount", duplicates="sum").n_items == 5
        for bad in (f"{url}&table=nothing", f"{url.replace('/shop?', '/no?')}&table=events"):
            with pytest.raises(DataError) as refused:
                read(bad)
            assert "secret" not in str(refused.value)
            assert "postgresql://me@/" in str(refused.value)
