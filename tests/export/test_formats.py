"""Every format, read back by the library that it is meant for: the same bits under the same ids and names."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from spherec.errors import ArgumentError, DataError
from spherec.export import EXPORT_FORMATS, find_format, write
from spherec.ranking import ExactRanker
from tests.export.models import ODD, expected_ids, model, models, read_copy
from tests.sampling.checks import directions

FORMATS = {known.name: f"x{known.suffix}" for known in EXPORT_FORMATS}


def bits(vectors):
    return np.asarray(vectors, dtype=np.float32).view(np.uint32).tolist()


def numbers(text):
    """Of pgvector's way to write a vector."""
    assert text[0] + text[-1] == "[]"
    return [float(number) for number in text[1:-1].split(",")]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("export") / "x"


# --- Parquet ---------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(case=models())
def test_parquet_comes_back_in_polars_pandas_and_pyarrow(case, path):
    vectors, data = case
    items = vectors.item_table.numpy()
    write(path, vectors, data, format="parquet")
    names = [None] * data.n_items if data.item_names is None else list(data.item_names)

    frame = pl.read_parquet(path)
    assert frame.columns == ["id", "name", "vector"]
    assert frame.schema["vector"] == pl.Array(pl.Float32, 5)
    assert bits(frame["vector"].to_numpy()) == bits(items)
    assert frame["name"].to_list() == names
    assert frame["id"].to_list() == expected_ids(data.item_ids)

    table = pq.read_table(path)
    assert pa.types.is_fixed_size_list(table.schema.field("vector").type)
    assert table.schema.field("vector").type.value_type == pa.float32()
    assert bits(table["vector"].combine_chunks().flatten().to_numpy().reshape(-1, 5)) == bits(items)
    assert table["id"].to_pylist() == frame["id"].to_list()
    assert table["name"].to_pylist() == names

    frame = pd.read_parquet(path)
    assert bits(np.stack(frame["vector"])) == bits(items)
    assert frame["id"].tolist() == table["id"].to_pylist()


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
    frame = pl.read_parquet(path)
    assert frame.schema == {"id": pl.Int64, "vector": pl.Array(pl.Float32, 5)}
    assert frame["id"].to_list() == [7, 8]


# --- npz -------------------------------------------------------------------------------------------------------------


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
            assert arrays[f"{kind}_vectors"].dtype == np.float32
            assert bits(arrays[f"{kind}_vectors"]) == bits(table)
            assert arrays[f"{kind}_ids"].tolist() == expected_ids(ids)
        assert ("item_names" in arrays) == (data.item_names is not None)
        if data.item_names is not None:
            assert arrays["item_names"].tolist() == [name or "" for name in data.item_names]


def test_half_characters_come_back_in_numpy(path):
    vectors, data = model(["u"], ["\ud800", "a\0b"], ["\udfff", None])
    write(path, vectors, data, format="npz")
    with np.load(path) as arrays:
        assert arrays["item_ids"].tolist() == ["\ud800", "a\0b"]
        assert arrays["item_names"].tolist() == ["\udfff", ""]


def test_a_name_that_would_blow_up_all_others_is_refused(path, monkeypatch):
    monkeypatch.setattr("spherec.export.npz._LARGEST", 4000)
    vectors, data = model(["u"], ["a", "b", "c"], ["x" * 400, None, None])
    with pytest.raises(DataError, match="item_names are up to 400 characters long"):
        write(path, vectors, data, format="npz")
    write(path, vectors, data, format="npz", names=False)
    with np.load(path) as arrays:
        assert "item_names" not in arrays


# --- pgvector --------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(case=models())
def test_pgvector_comes_back_by_the_rules_of_copy(case, path):
    vectors, data = case
    write(path, vectors, data, format="pgvector", what="both")
    tables = read_copy(path.read_bytes())
    assert list(tables) == ["spherec_items", "spherec_users"]
    for columns, rows in tables.values():
        assert {len(row) for row in rows} == {len(columns)}
    columns, rows = tables["spherec_items"]
    named = data.item_names is not None
    assert columns == (["id", "name", "embedding"] if named else ["id", "embedding"])
    if named:
        assert [row[1] for row in rows] == list(data.item_names)
    assert bits([numbers(row[-1]) for row in rows]) == bits(vectors.item_table)
    assert [row[0] for row in rows] == list(map(str, expected_ids(data.item_ids)))
    _, rows = tables["spherec_users"]
    assert bits([numbers(row[-1]) for row in rows]) == bits(vectors.user_table)


@pytest.mark.parametrize(("constraint", "operators"), [("sphere", "vector_ip_ops"), ("ball", "vector_l2_ops")])
@pytest.mark.parametrize(("ids", "kind"), [([3, -4], "bigint"), (["a", "b"], "text")])
def test_the_script_makes_table_and_index(path, constraint, operators, ids, kind):
    vectors, data = model(["u"], ids, ["A", None], constraint=constraint)
    write(path, vectors, data, format="pgvector")
    script = path.read_text()
    assert script.index("\\set ON_ERROR_STOP on\n") < script.index("BEGIN;\n") < script.index("CREATE TABLE")
    columns = f"id {kind} PRIMARY KEY, name text, embedding vector(5) NOT NULL"
    assert f"CREATE TABLE spherec_items ({columns});\nCOPY spherec_items (id, name, embedding) FROM STDIN;\n" in script
    assert script.endswith(f"\n\\.\nCREATE INDEX ON spherec_items USING hnsw (embedding {operators});\nCOMMIT;\n")


def test_long_vectors_have_no_index_and_longer_ones_no_table(path):
    write(path, *model(["u"], ["a"], dim=2001), format="pgvector")
    assert b"CREATE INDEX" not in path.read_bytes()
    with pytest.raises(DataError, match="16,001"):
        write(path, *model(["u"], ["a"], dim=16_001), format="pgvector")


# --- usearch ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@pytest.mark.parametrize("what", ["items", "users"])
def test_usearch_comes_back_in_usearch(path, constraint, what):
    pytest.importorskip("usearch")
    from usearch.index import Index

    vectors, data = model([f"u{n}" for n in range(300)], ODD, ODD, constraint=constraint)
    table, ids = (vectors.item_table, ODD) if what == "items" else (vectors.user_table, list(data.user_ids))
    write(path.with_suffix(".usearch"), vectors, data, what=what)
    index = Index.restore(path.with_suffix(".usearch"), view=True)
    assert len(index) == len(ids)
    assert index.search(table.numpy()[1:], 1).keys[:, 0].tolist() == list(range(1, len(ids)))
    lines = [json.loads(line) for line in path.with_suffix(".ids.jsonl").read_bytes().split(b"\n")[:-1]]
    assert [line["key"] for line in lines] == list(range(len(ids)))
    assert [line["id"] for line in lines] == ids
    assert [line.get("name") for line in lines] == (ODD if what == "items" else [None] * 300)


def test_the_exported_index_serves_the_model(path):
    pytest.importorskip("usearch")
    from spherec.ranking.usearch import UsearchRanker

    vectors, data = model(["u", "v"], list(range(50)))
    write(path.with_suffix(".usearch"), vectors, data)
    assert UsearchRanker.load(path.with_suffix(".usearch"), vectors).top(np.arange(2), 7).items.shape == (2, 7)


def test_an_index_holds_one_kind(path):
    with pytest.raises(ArgumentError, match="items or users, not both"):
        write(path, *model(["u"], ["a"]), format="usearch", what="both")


# --- All of them -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
def test_many_blocks_make_one_file_and_tell_how_far_they_are(format, path, monkeypatch):
    monkeypatch.setattr("spherec.export.table._BLOCK", 3)
    vectors, data = model(["u", "v"], [f"i{n}" for n in range(10)], [f"n{n}" for n in range(10)])
    told = []
    write(path.with_name("whole"), vectors, data, format=format)
    write(path.with_name("blocks"), vectors, data, format=format, progress=lambda *numbers: told.append(numbers))
    assert told[-1] == (10, 10)
    assert told == sorted(told)
    if format == "parquet":
        assert pl.read_parquet(path.with_name("blocks")).equals(pl.read_parquet(path.with_name("whole")))
    else:
        assert path.with_name("blocks").read_bytes() == path.with_name("whole").read_bytes()


@pytest.mark.parametrize("format", FORMATS)
def test_what_fails_leaves_the_old_file(format, tmp_path, monkeypatch):
    vectors, data = model(["u"], ["a", "b"], ["A", "B"])
    target = tmp_path / FORMATS[format]
    target.write_bytes(b"old")

    def crash(self):
        raise ZeroDivisionError

    for part in ("names", "vectors"):
        monkeypatch.setattr(f"spherec.export.table.ExportBlock.{part}", property(crash))
    with pytest.raises((ZeroDivisionError, pl.exceptions.ComputeError)):
        write(target, vectors, data)
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("format", "bad"), [("parquet", "a\ud800"), ("pgvector", "a\ud800"), ("pgvector", "a\0"), ("npz", "a\0")]
)
def test_ids_that_a_format_cannot_hold_are_refused(format, bad, tmp_path):
    with pytest.raises(DataError, match=r"the item id 'a\\"):
        write(tmp_path / "x", *model(["u"], ["fine", bad]), format=format)
    assert not list(tmp_path.iterdir())


def test_names_lose_what_a_format_cannot_hold(path):
    vectors, data = model(["u"], ["a"], ["x\ud800y\0z"])
    write(path, vectors, data, format="parquet")
    assert pl.read_parquet(path)["name"].to_list() == ["x\ufffdy\0z"]
    write(path, vectors, data, format="pgvector")
    assert read_copy(path.read_bytes())["spherec_items"][1][0][1] == "x\ufffdy\ufffdz"


@pytest.mark.parametrize("format", FORMATS)
def test_names_can_be_left_out(format, path):
    vectors, data = model(["u"], ["a", "b"], ["secret", "title"])
    write(path.with_suffix(".x"), vectors, data, format=format, names=False)
    for file in path.parent.iterdir():
        if file.stem.startswith("x") and file.suffix in (".x", ".jsonl"):
            assert b"secret" not in file.read_bytes()


def test_the_ending_says_the_format_and_mistakes_are_named(path):
    for name, file in FORMATS.items():
        assert find_format(file).name == name
    case = model(["u"], ["a"])
    with pytest.raises(ArgumentError, match=r"x\.txt .*parquet \(\.parquet\), npz"):
        write("x.txt", *case)
    with pytest.raises(ArgumentError, match=r"parquet.*'csv'"):
        write(path, *case, format="csv")
    with pytest.raises(ArgumentError, match=r"what .*'item'$"):
        write(path, *case, format="npz", what="item")
    with pytest.raises(ArgumentError, match=r"1 users and 1 items.*2 and 1"):
        write(path, case[0], model(["u", "v"], ["a"])[1], format="npz")


class Tab:
    """A format of the user's own."""

    name = "tab"
    suffix = ".tab"

    def write(self, path, tables, constraint, progress):
        with open(path, "w", encoding="utf-8") as file:
            for table in tables:
                for block in table.blocks():
                    for plain, name, vector in zip(block.ids, block.names, block.vectors, strict=True):
                        print(table.kind, plain, name, *vector, constraint, sep="\t", file=file)
                    progress.add(len(block))


def test_a_format_of_the_users_own(path):
    vectors, data = model(["u", "v"], [3, 4], ["three", None])
    told = []
    write(path, vectors, data, format=Tab(), what="both", progress=lambda *numbers: told.append(numbers))
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line[:3] for line in lines] == [
        ["item", "3", "three"],
        ["item", "4", "None"],
        ["user", "u", "None"],
        ["user", "v", "None"],
    ]
    assert np.array_equal(np.array(lines[2][3:-1], np.float32), vectors.user_table[0].numpy())
    assert told == [(2, 4), (4, 4)]


def test_a_model_is_enough(tmp_path):
    vectors, data = model(["u", "v"], ["a", "b", "c"])

    class Trained:
        pass

    trained = Trained()
    trained.vectors, trained.data = vectors, data
    write(tmp_path / "one.npz", trained, what="both")
    write(tmp_path / "two.npz", vectors, data, what="both")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    with pytest.raises(ArgumentError, match="no ids"):
        write(tmp_path / "three.npz", vectors)


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
            return arrays["item_vectors"], arrays["user_vectors"]
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


def test_npz_names_the_column_of_the_dial(path):
    for reach in (REACH, None):
        write(path, *model(USERS, ITEMS, reach=reach), format="npz")
        with np.load(path) as arrays:
            assert ("dial_column" in arrays) == (reach is not None)
            if reach is not None:
                found = arrays["item_vectors"][:, int(arrays["dial_column"])]
                np.testing.assert_allclose(found, reach.mean(1), rtol=1e-5)


def test_the_script_names_the_number_of_the_dial(path):
    write(path, *model(USERS, ITEMS, dim=5, reach=REACH, mainstream=0.6), format="pgvector")
    assert "Number 6 of a user's vector is mainstream (0.6), number 7 is 0" in path.read_text()


@pytest.mark.parametrize("what", ["items", "users"])
def test_usearch_has_the_dial_in_items_alone(path, what):
    pytest.importorskip("usearch")
    from usearch.index import Index

    vectors, data = model(USERS, ITEMS, reach=REACH, mainstream=0.6)
    write(path.with_suffix(".usearch"), vectors, data, what=what)
    index = Index.restore(path.with_suffix(".usearch"), view=True)
    assert index.ndim == (7 if what == "items" else 5)
    if what == "items":
        user = np.float32([*vectors.user_table[0], 1.25, 0])
        expected = ExactRanker(vectors).top(np.arange(1), 1, mainstream=1.25).items
        assert index.search(user, 1).keys[0] == expected[0, 0]


@pytest.mark.parametrize("reach", [np.zeros((60, 1)), np.full((60, 1), -0.3), np.eye(60)[:, :1]])
def test_items_of_any_reach_are_equally_long(reach, path):
    vectors, data = model(USERS, ITEMS, reach=reach)
    write(path, vectors, data, format="npz")
    with np.load(path) as arrays:
        lengths = np.linalg.norm(arrays["item_vectors"][1:].astype(float), axis=1)
    np.testing.assert_allclose(lengths, np.hypot(1, np.abs(reach).max()), rtol=1e-6)
