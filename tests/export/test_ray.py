"""Lists for everybody on Ray Data: the same table as that of `recommend --all`."""

import numpy as np
import polars as pl
import pytest
import torch

import spherec
from spherec.errors import ArgumentError
from spherec.export.ray import Lists
from tests.docs.blocks import ROOT, blocks
from tests.recommender.models import ITEMS, USERS, model_of, small

pytest.importorskip("pyarrow", reason="tables are those of pyarrow: pip install pyarrow")
pytestmark = pytest.mark.usefixtures("set_threads")  # workers set them


CASES = {
    "plain": ({}, USERS),
    "short": ({"k": 3, "exclude_seen": False}, USERS),
    "dial": ({"mainstream": -0.25}, USERS),
    "items": ({"only": ITEMS[:9], "exclude": ITEMS[4]}, USERS),
    "integers": ({"k": 4}, np.arange(12)),
}


@pytest.mark.parametrize(("options", "users"), CASES.values(), ids=CASES)
def test_batches_of_users_get_the_lists_of_the_file(tmp_path, options, users):
    model = model_of(small(users=list(users)), mainstream=0.6)
    model.save(tmp_path / "x.spherec")
    model.recommend_to_file(tmp_path / "x.parquet", **options)
    worker = Lists(tmp_path / "x.spherec", **options, threads=3)
    batches = [users[first : first + 5] for first in range(0, len(users), 5)]
    found = pl.concat([pl.from_arrow(table) for batch in batches for table in worker({"user": batch})])
    assert found.equals(pl.read_parquet(tmp_path / "x.parquet"), null_equal=True)
    assert torch.get_num_threads() == 3


def test_unknown_users_have_no_lists_and_an_unknown_column_is_named(tmp_path):
    model_of(small(users=range(12))).save(tmp_path / "x.spherec")
    worker = Lists(tmp_path / "x.spherec", unknown="skip")
    (some,), (none,) = (list(worker({"user": np.array(users)})) for users in ([3], [99]))
    assert (len(some), len(none), none.schema) == (10, 0, some.schema)
    with pytest.raises(ArgumentError, match="'user'"):
        list(worker({"id": USERS}))


@pytest.fixture
def cluster(monkeypatch):
    """Three CPUs, two for workers and one for reading, reached through loopback alone; it ends with the test."""
    ray = pytest.importorskip("ray", reason="needs the extra ray: pip install 'ray[data]'")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(num_cpus=3, include_dashboard=False, _node_ip_address="127.0.0.1", object_store_memory=200 << 20)
    yield ray
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_ray_gives_the_lists_of_everybody(cluster, monkeypatch, tmp_path):
    """The call of docs/scaling.md, for all users of Book-Crossing in four files."""
    monkeypatch.chdir(tmp_path)
    data = spherec.datasets.book_crossing()
    model = spherec.CML.preset("accurate", dim=16, epochs=1).fit(data)
    model.save("books.spherec")
    model.recommend_to_file("everybody.parquet", k=50, mainstream=0.2)
    (tmp_path / "users").mkdir()
    for part in range(4):
        pl.DataFrame({"user": data.user_ids[:][part::4]}).write_parquet(f"users/{part}.parquet")
    (block,) = (block for block in blocks(ROOT / "docs/scaling.md") if "ray.data" in block.text)
    exec(block.text.replace("/shared/", f"{tmp_path}/"), {})
    assert len(list(tmp_path.glob("lists/*.parquet"))) >= 2, "there is work for two workers"
    lists, everybody = pl.read_parquet("lists/*.parquet"), pl.read_parquet("everybody.parquet")
    assert lists.sort("user", "rank").equals(everybody.sort("user", "rank"))
