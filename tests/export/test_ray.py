"""Lists for everybody on Ray Data: the same table as that of `recommend --all`."""

import numpy as np
import polars as pl
import pytest
import torch

import spherec
from spherec.cli import main
from spherec.errors import ArgumentError, UnknownIdError
from spherec.export.ray import Lists
from tests.docs.blocks import ROOT, blocks
from tests.recommender.models import ITEMS, USERS, model_of, small

pytest.importorskip("pyarrow", reason="tables are those of pyarrow: pip install pyarrow")


def lists_of(path, users, **options):
    """The table of a worker that gets the users in batches of five."""
    worker = Lists(path, **options)
    batches = [users[first : first + 5] for first in range(0, len(users), 5)]
    return pl.concat([pl.from_arrow(table) for batch in batches for table in worker({"user": batch})])


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


pytestmark = pytest.mark.usefixtures("threads")

OPTIONS = {
    "plain": {},
    "short": {"k": 3, "exclude_seen": False},
    "dial": {"mainstream": -0.25},
    "items": {"only": ITEMS[:9], "exclude": ITEMS[4]},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_batches_of_users_get_the_lists_of_the_file(tmp_path, options):
    model = model_of(small(), mainstream=0.6)
    model.save(tmp_path / "x.spherec")
    model.recommend_to_file(tmp_path / "x.parquet", **options)
    expected = pl.read_parquet(tmp_path / "x.parquet")
    assert lists_of(tmp_path / "x.spherec", np.array(USERS), **options).equals(expected, null_equal=True)


IDS = {
    "integers": np.arange(12),
    "unsigned": np.arange(12, dtype=np.uint64),
    "texts": [f"u{n}" for n in range(12)],
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_ids_have_the_types_of_the_file(tmp_path, ids):
    model = model_of(small(users=list(ids)))
    model.save(tmp_path / "x.spherec")
    model.recommend_to_file(tmp_path / "x.parquet", k=4)
    assert lists_of(tmp_path / "x.spherec", ids, k=4).equals(pl.read_parquet(tmp_path / "x.parquet"))


def test_a_batch_without_lists_has_the_same_types(tmp_path):
    model_of(small(users=range(12))).save(tmp_path / "x.spherec")
    worker = Lists(tmp_path / "x.spherec", unknown="skip")
    (some,), (none,) = (list(worker({"user": np.array(users)})) for users in ([3], [99]))
    assert len(none) == 0
    assert len(some) == 10
    assert none.schema == some.schema


def test_users_without_lists_do_not_spoil_the_file(tmp_path):
    """The first block of users gets nothing, the second does."""
    rows = np.ones((1025, 4))
    rows[-1, 2] = 0
    model_of(spherec.Interactions.from_matrix(rows)).recommend_to_file(tmp_path / "x.parquet")
    assert pl.read_parquet(tmp_path / "x.parquet").select("user", "item").rows() == [(1024, 2)]


def test_a_worker_has_the_threads_that_it_is_given(tmp_path):
    model_of(small()).save(tmp_path / "x.spherec")
    for threads in (3, 1):
        list(Lists(tmp_path / "x.spherec", threads=threads)({"user": USERS}))
        assert torch.get_num_threads() == threads


def test_mistakes_are_one_sentence(tmp_path):
    model_of(small()).save(tmp_path / "x.spherec")
    with pytest.raises(ArgumentError, match="the users have no column 'user'; name theirs with user=…"):
        list(Lists(tmp_path / "x.spherec")({"id": USERS}))
    with pytest.raises(UnknownIdError, match="user 'nobody' is not among"):
        list(Lists(tmp_path / "x.spherec", user="id")({"id": ["nobody"]}))
    with pytest.raises(ArgumentError, match="threads must be"):
        Lists(tmp_path / "x.spherec", threads=0)


@pytest.fixture
def cluster(monkeypatch):
    """Three CPUs, two for workers and one for reading, reached through loopback alone; it ends with the test."""
    ray = pytest.importorskip("ray", reason="needs the extra ray: pip install 'spherec[ray]'")
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
    spherec.CML.preset("accurate", dim=16, epochs=1).fit(data).save("books.spherec")
    with pytest.raises(SystemExit) as ended:
        main(["recommend", "books.spherec", "--all", "-k", "50", "--mainstream", "0.2", "-o", "everybody.parquet"])
    assert not ended.value.code
    everybody = pl.read_parquet("everybody.parquet")
    assert everybody["user"].n_unique() == data.n_users == 3593
    (tmp_path / "users").mkdir()
    for part in range(4):
        pl.DataFrame({"user": data.user_ids[:][part::4]}).write_parquet(f"users/{part}.parquet")
    (block,) = (block for block in blocks(ROOT / "docs/scaling.md") if "ray.data" in block.text)
    exec(block.text.replace("/shared/", f"{tmp_path}/"), {})
    assert len(list(tmp_path.glob("lists/*.parquet"))) >= 2, "there is work for two workers"
    lists = pl.read_parquet("lists/*.parquet")
    assert lists.schema == everybody.schema
    assert lists.sort("user", "rank").equals(everybody.sort("user", "rank"))
