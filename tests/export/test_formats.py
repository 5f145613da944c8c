"""Every format, read back by the library that it is meant for: the same bits under the same ids and names."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from usearch.index import Index

from spherec.errors import ArgumentError, DataError
from spherec.export import EXPORT_FORMATS, find_format, write
from spherec.export.index import IDS
from spherec.ranking import ExactRanker
from spherec.ranking.usearch import load_index
from tests.export.models import ODD, expected_ids, model, models, read_copy
from tests.sampling.checks import directions

FORMATS = {known.name: known.suffix for known in EXPORT_FORMATS}


def bits(vectors):
    return np.asarray(vectors, dtype=np.float32).view(np.uint32).tolist()


def numbers(text):
    """Of pgvector's way to write a vector."""
    assert text[0] + text[-1] == "[]"
    return [float(number) for number in text[1:-1].split(",")]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("export") / "x"


# --- Formats ---------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(case=models())
def test_parquet_comes_back_in_polars_pandas_and_pyarrow(case, path):
    vectors, data = case
    write(path, vectors, data, format="parquet")
    frame, table = pl.read_parquet(path), pq.read_table(path)
    assert frame.schema["vector"] == pl.Array(pl.Float32, 5)
    assert pa.types.is_fixed_size_list(table.schema.field("vector").type)
    assert frame.columns == table.column_names == ["id", "name", "vector"]
    assert frame["name"].to_list() == list(data.item_names or [None] * data.n_items)
    assert frame["id"].to_list() == table["id"].to_pylist() == expected_ids(data.item_ids)
    arrow = table["vector"].combine_chunks().flatten().to_numpy().reshape(-1, 5)
    for found in (frame["vector"].to_numpy(), arrow, np.stack(pd.read_parquet(path)["vector"])):
        assert bits(found) == bits(vectors.item_table)


def test_users_and_items_in_one_parquet_are_told_apart(path):
    vectors, data = model([7, 8], ["a", "b", "c"], ["A", None, "C"])
    write(path, vectors, data, format="parquet", what="both")
    frame = pl.read_parquet(path)
    assert frame.columns == ["kind", "id", "name", "vector"]
    assert frame["kind"].to_list() == ["item"] * 3 + ["user"] * 2
    assert frame["id"].to_list() == ["a", "b", "c", "7", "8"]
    assert frame["name"].to_list() == ["A", None, "C", None, None]
    assert bits(frame["vector"].to_numpy()) == bits(vectors.item_table) + bits(vectors.user_table)
    write(path, vectors, data, format="parquet", what="users")
    assert pl.read_parquet(path).schema == {"id": pl.Int64, "vector": pl.Array(pl.Float32, 5)}


@settings(max_examples=40)
@given(case=models())
def test_npz_comes_back_in_numpy(case, path):
    vectors, data = case
    write(path, vectors, data, format="npz", what="both")
    with np.load(path, allow_pickle=False) as arrays:
        assert str(arrays["constraint"]) == vectors.constraint
        for kind, ids, table in (
            ("item", data.item_ids, vectors.item_table),
            ("user", data.user_ids, vectors.user_table),
        ):
            assert bits(arrays[f"{kind}_vectors"]) == bits(table)
            assert arrays[f"{kind}_ids"].tolist() == expected_ids(ids)
        names = arrays["item_names"].tolist() if "item_names" in arrays else None
        assert names == (data.item_names and [name or "" for name in data.item_names])


def test_a_name_that_would_blow_up_all_others_is_refused(path, monkeypatch):
    monkeypatch.setattr("spherec.export.npz._LARGEST", 4000)
    with pytest.raises(DataError, match="400"):
        write(path, *model(["u"], ["a", "b", "c"], ["x" * 400, None, None]), format="npz")


@settings(max_examples=40)
@given(case=models())
def test_pgvector_comes_back_by_the_rules_of_copy(case, path):
    vectors, data = case
    write(path, vectors, data, format="pgvector", what="both")
    (columns, items), (_, users) = read_copy(path.read_bytes()).values()
    named = data.item_names is not None
    assert columns == (["id", "name", "embedding"] if named else ["id", "embedding"])
    assert not named or [row[1] for row in items] == list(data.item_names)
    assert [row[0] for row in items] == list(map(str, expected_ids(data.item_ids)))
    assert bits([numbers(row[-1]) for row in items]) == bits(vectors.item_table)
    assert bits([numbers(row[-1]) for row in users]) == bits(vectors.user_table)


SCRIPTS = [("sphere", "vector_ip_ops", [3, -4], "bigint"), ("ball", "vector_l2_ops", ["a", "b"], "text")]


@pytest.mark.parametrize(("constraint", "operators", "ids", "kind"), SCRIPTS)
def test_the_script_makes_table_and_index(path, constraint, operators, ids, kind):
    write(path, *model(["u"], ids, ["A", None], constraint=constraint), format="pgvector")
    script = path.read_text()
    assert script.index("\\set ON_ERROR_STOP on\n") < script.index("BEGIN;\n") < script.index("CREATE TABLE")
    columns = f"id {kind} PRIMARY KEY, name text, embedding vector(5) NOT NULL"
    assert f"CREATE TABLE spherec_items ({columns});\nCOPY spherec_items (id, name, embedding) FROM STDIN;\n" in script
    assert script.endswith(f"\n\\.\nCREATE INDEX ON spherec_items USING hnsw (embedding {operators});\nCOMMIT;\n")
    write(path, *model(["u"], ["a"], dim=2001), format="pgvector")
    assert b"CREATE INDEX" not in path.read_bytes(), "pgvector indexes no more dimensions"


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@pytest.mark.parametrize("what", ["items", "users"])
def test_usearch_comes_back_in_usearch_and_serves_the_model(tmp_path, constraint, what):
    vectors, data = model([f"u{n}" for n in range(300)], ODD, ODD, constraint=constraint)
    table, ids = (vectors.item_table, ODD) if what == "items" else (vectors.user_table, list(data.user_ids))
    write(tmp_path / "x.usearch", vectors, data, what=what)
    index = Index.restore(tmp_path / "x.usearch", view=True)
    assert index.search(table.numpy()[1:], 1).keys[:, 0].tolist() == list(range(1, len(ids)))
    lines = [json.loads(line) for line in (tmp_path / "x.ids.jsonl").read_bytes().split(b"\n")[:-1]]
    assert [(line["key"], line["id"]) for line in lines] == list(enumerate(ids))
    assert [line.get("name") for line in lines] == (ODD if what == "items" else [None] * 300)
    if what == "items":
        assert load_index(tmp_path / "x.usearch", vectors).top(np.arange(2), 7).items.shape == (2, 7)
    with pytest.raises(ArgumentError, match="not both"):
        write(tmp_path / "x.usearch", vectors, data, what="both")


# --- All of them -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
def test_many_blocks_make_one_file_and_tell_how_far_they_are(format, tmp_path, monkeypatch):
    vectors, data = model(["u", "v"], [f"i{n}" for n in range(10)], [f"n{n}" for n in range(10)])
    whole, blocks = tmp_path / f"whole{FORMATS[format]}", tmp_path / f"blocks{FORMATS[format]}"
    told = []
    write(whole, vectors, data)
    monkeypatch.setattr("spherec.export.table._BLOCK", 3)
    write(blocks, vectors, data, progress=lambda *numbers: told.append(numbers))
    assert told[-1] == (10, 10)
    assert told == sorted(told)
    if format == "parquet":
        assert pl.read_parquet(blocks).equals(pl.read_parquet(whole))
    else:  # of usearch the ids: its graph depends on threads
        first, second = (path.with_suffix(IDS if format == "usearch" else path.suffix) for path in (whole, blocks))
        assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("format", FORMATS)
def test_what_fails_leaves_the_old_file(format, tmp_path, monkeypatch):
    def crash(self):
        raise ZeroDivisionError

    (target := tmp_path / f"x{FORMATS[format]}").write_bytes(b"old")
    monkeypatch.setattr("spherec.export.table.ExportTable.blocks", crash)
    with pytest.raises((ZeroDivisionError, pl.exceptions.ComputeError)):
        write(target, *model(["u"], ["a", "b"], ["A", "B"]))
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("format", FORMATS)
def test_what_no_text_can_hold_is_refused_in_ids_and_replaced_in_names(format, tmp_path):
    for bad in ("a\ud800", "a\0"):
        with pytest.raises(DataError, match=r"the item id 'a\\"):
            write(tmp_path / f"x{FORMATS[format]}", *model(["u"], ["fine", bad]))
    assert not list(tmp_path.iterdir())
    write(tmp_path / f"x{FORMATS[format]}", *model(["u"], ["a"], ["x\ud800y\0z"]))


@pytest.mark.parametrize("format", FORMATS)
def test_names_can_be_left_out(format, tmp_path):
    write(tmp_path / f"x{FORMATS[format]}", *model(["u"], ["a", "b"], ["secret", "title"]), names=False)
    assert all(b"secret" not in file.read_bytes() for file in tmp_path.iterdir())


def test_the_ending_says_the_format_and_mistakes_are_named(tmp_path):
    assert [find_format(f"x{suffix}").name for suffix in FORMATS.values()] == list(FORMATS)
    vectors, data = model(["u"], ["a"])
    for options, word in (({}, "x.txt"), ({"format": "csv"}, "'csv'"), ({"format": "npz", "what": "item"}, "'item'")):
        with pytest.raises(ArgumentError, match=word):
            write(tmp_path / "x.txt", vectors, data, **options)
    for other, words in ((None, "no ids"), (model(["u", "v"], ["a"])[1], "ids of 2 and 1")):
        with pytest.raises(ArgumentError, match=f"1 users and 1 items.*{words}"):
            write(tmp_path / "x.npz", vectors, other)


def test_a_format_of_the_users_own():
    vectors, data = model(["u"], [3, 4], ["three", None])
    rows, told = [], []

    def write_rows(path, tables, constraint, progress):
        for kind, block in ((table.kind, block) for table in tables for block in table.blocks()):
            rows.extend(zip([kind] * len(block), block.ids, block.names, block.vectors.tolist(), strict=True))
            progress.add(len(block))

    asked = {"format": SimpleNamespace(write=write_rows), "what": "both", "progress": lambda *done: told.append(done)}
    write("x", SimpleNamespace(vectors=vectors, data=data), **asked)
    assert [row[:3] for row in rows] == [("item", 3, "three"), ("item", 4, None), ("user", "u", None)]
    assert rows[2][3] == vectors.user_table[0].tolist()
    assert told == [(2, 3), (3, 3)]


# --- Reach -----------------------------------------------------------------------------------------------------------

USERS, ITEMS = [f"u{n}" for n in range(7)], [f"i{n}" for n in range(60)]
REACH = np.random.default_rng(3).normal(0.05, 0.2, (60, 2))  # in each of two subspaces


def read_vectors(format, path, vectors, data):
    """Item and user vectors, as another program reads them."""
    write(path, vectors, data, format=format, what="both")
    if format == "parquet":
        frame = pl.read_parquet(path)
        return (frame.filter(pl.col("kind") == kind)["vector"].to_numpy() for kind in ("item", "user"))
    if format == "npz":
        with np.load(path) as arrays:
            found = arrays["item_vectors"][:, int(arrays["dial_column"])]
            np.testing.assert_allclose(found, REACH.mean(1), rtol=1e-5)
            return arrays["item_vectors"], arrays["user_vectors"]
    assert "Number 6 of a user's vector is mainstream (0.6), number 7 is 0" in path.read_text()
    tables = read_copy(path.read_bytes())
    return (np.array([numbers(row[-1]) for row in tables[name][1]], np.float32) for name in tables)


@pytest.mark.parametrize("format", ["parquet", "npz", "pgvector"])
@pytest.mark.parametrize("mainstream", [None, -0.5, 0.0, 0.25, 1.25])
def test_plain_neighbours_in_an_export_with_reach_are_the_models_lists(format, mainstream, path, monkeypatch):
    monkeypatch.setattr("spherec.export.table._BLOCK", 16)
    vectors, data = model(USERS, ITEMS, reach=REACH, mainstream=0.6)
    vectors = replace(vectors, item_table=directions(60, 5, 2))
    expected = ExactRanker(vectors).top(np.arange(7), 60, mainstream=mainstream).items.tolist()
    items, users = read_vectors(format, path, vectors, data)
    assert items.shape == (60, 7)
    assert np.array_equal(users, np.hstack([vectors.user_table.numpy(), np.tile(np.float32([0.6, 0]), (7, 1))]))
    if mainstream is not None:
        users = users.copy()
        users[:, 5] = mainstream
    dot = users.astype(float) @ items.T.astype(float)
    cosine = dot / np.linalg.norm(users, axis=1)[:, None] / np.linalg.norm(items, axis=1)
    distance = np.linalg.norm(users[:, None].astype(float) - items, axis=2)
    for nearness in (dot, cosine, -distance):
        assert np.argsort(-nearness, axis=1, kind="stable").tolist() == expected


def test_usearch_has_the_dial_in_items_alone(tmp_path):
    vectors, data = model(USERS, ITEMS, reach=REACH, mainstream=0.6)
    for what in ("items", "users"):
        write(tmp_path / f"{what}.usearch", vectors, data, what=what)
    items, users = (Index.restore(tmp_path / f"{what}.usearch", view=True) for what in ("items", "users"))
    assert (items.ndim, users.ndim) == (7, 5)
    user = np.float32([*vectors.user_table[0], 1.25, 0])
    expected = ExactRanker(vectors).top(np.arange(1), 1, mainstream=1.25).items
    assert items.search(user, 1).keys[0] == expected[0, 0]
