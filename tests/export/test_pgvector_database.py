"""The script for pgvector in PostgreSQL: the SQL of the docs gives the lists of exact ranking, wherever the dial is."""

import json

import numpy as np
import pytest
import torch

from spherec.data.interactions import Interactions
from spherec.export import write
from spherec.geometry import DenseVectors, unit
from spherec.ranking import ExactRanker
from tests.docs.blocks import ROOT, blocks
from tests.export.models import ODD, model
from tests.postgres import Database, server
from tests.sampling.checks import directions, generator

DIAL = [-0.5, -0.25, 0.0, 0.25, 0.5, 0.6, 0.75, 1.0, 1.25]
USERS = ["106768", *(f"u{n}" for n in range(19))]  # the first is in the docs
K = 10  # as in the docs


@pytest.fixture(scope="module")
def folder():
    with server() as folder:
        yield folder


@pytest.fixture(scope="module")
def vectors_and_data():
    """1,500 items around 30 places, of which some have more reach; users among them."""
    places = directions(30, 16)[torch.arange(1520) % 30]
    users, items = unit(places + 0.3 * torch.empty(1520, 16).normal_(generator=generator(2))).split([20, 1500])
    reach = torch.empty(1500, 2).normal_(0.1, 0.2, generator=generator(3))
    ids = [f"i{n}" for n in range(1500)]
    data = Interactions.from_matrix(np.ones((20, 1500)), user_ids=USERS, item_ids=ids).with_item_names({"i3": "Three"})
    return DenseVectors(users, items, "sphere", reach, 0.6), data


@pytest.fixture(scope="module")
def database(folder, vectors_and_data, tmp_path_factory):
    path = tmp_path_factory.mktemp("sql") / "shop.sql"
    write(path, *vectors_and_data, what="both")
    database = Database(folder, "shop")
    database.load(path)
    return database


def sql_of_docs():
    """The statements of docs/indexes.md that ask for neighbours: of a user, at any place of the dial, of a vector."""
    found = [block.text for block in blocks(ROOT / "docs/indexes.md") if "spherec_items" in block.text]
    assert len(found) == 3
    return found


PATHS = {
    "without the index": "SET enable_indexscan = off",
    "through the index": "SET enable_seqscan = off; SET hnsw.ef_search = 200",
}
both_ways = pytest.mark.parametrize("path", PATHS)


def check(database, path, expected, *statements):
    """The lists of the statements, one after the other, are the expected ones (B, K)."""
    found = [row[0] for row in database.ask(PATHS[path], *statements)]
    lists = np.array([int(one.removeprefix("i")) for one in found]).reshape(expected.shape)
    if path == "without the index":
        assert lists.tolist() == expected.tolist()
    else:
        shared = [len({*a} & {*b}) / K for a, b in zip(lists.tolist(), expected.tolist(), strict=True)]
        assert np.mean(shared) >= 0.98  # pgvector draws the levels of its graph anew for each index


@both_ways
@pytest.mark.parametrize("operator", ["<#>", "<=>", "<->"])
def test_plain_neighbours_of_users_are_their_lists(database, vectors_and_data, path, operator):
    """The index serves one operator; the others read the table."""
    whole = sql_of_docs()[0].replace("WHERE item.id NOT IN ('0345339703')\n", "").strip().rstrip(";")
    assert "WHERE item.id" not in whole
    expected = ExactRanker(vectors_and_data[0]).top(np.arange(20), K).items
    check(database, path, expected, *(whole.replace("<#>", operator).replace("106768", user) for user in USERS))


@both_ways
def test_the_dial_is_a_parameter(database, vectors_and_data, path):
    prepare, execute, _ = sql_of_docs()[1].split(";")
    asked = [execute.replace("106768", user).replace("0.1", str(place)) for user in USERS for place in DIAL]
    assert len(set(asked)) == len(asked)
    places = np.tile(np.float32(DIAL), 20)
    expected = ExactRanker(vectors_and_data[0]).top(np.repeat(np.arange(20), 9), K, mainstream=places).items
    check(database, path, expected, prepare, *asked)
    plan = str(database.ask(PATHS[path], prepare, f"EXPLAIN {execute}"))
    assert ("Index Scan using spherec_items_embedding_idx" in plan) == (path == "through the index")


@both_ways
def test_new_users_are_a_parameter(database, vectors_and_data, path):
    prepare, _ = sql_of_docs()[2].split(";")
    new = directions(5, 16, 9).numpy()
    asked = [f"EXECUTE nearest_to('{[*map(float, vector), place, 0]}')" for vector in new for place in DIAL]
    expected = ExactRanker(vectors_and_data[0]).top_of(np.repeat(new, 9, 0), K, mainstream=np.tile(DIAL, 5)).items
    check(database, path, expected, prepare, *asked)


@pytest.mark.parametrize("reach", [None, np.linspace(-0.3, 0.8, len(ODD))[:, None]], ids=["plain", "reach"])
def test_everything_comes_into_the_database_as_it_was(folder, tmp_path, reach):
    vectors, data = model([7, -8], ODD, [None, *reversed(ODD[1:])], reach=reach)
    write(tmp_path / "odd.sql", vectors, data, what="both")
    odd = Database(folder, "odd" if reach is None else "odd_reach")
    odd.load(tmp_path / "odd.sql")
    columns = "to_json(id), to_json(name), to_json(embedding::real[])"
    answer = odd.ask(f"SELECT {columns} FROM spherec_items ORDER BY ctid")
    rows = [[json.loads(value) if value else None for value in row] for row in answer]
    assert [row[:2] for row in rows] == [list(pair) for pair in zip(ODD, data.item_names, strict=True)]
    there = np.array([row[2] for row in rows], np.float32)
    assert np.array_equal(there[:, :5], vectors.item_table.numpy())
    assert there.shape[1] == (5 if reach is None else 7)


def test_a_script_that_fails_leaves_nothing(folder, tmp_path):
    write(tmp_path / "x.sql", *model(["u"], ["a", "b"]), what="both")
    text = (tmp_path / "x.sql").read_text()
    (tmp_path / "x.sql").write_text(text.replace("CREATE INDEX ON spherec_users", "CREATE INDEX ON nothing"))
    half = Database(folder, "half")
    with pytest.raises(AssertionError, match="nothing"):
        half.load(tmp_path / "x.sql")
    assert half.ask("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'spherec%'") == [["0"]]
