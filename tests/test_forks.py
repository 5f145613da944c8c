"""Processes that were forked answer, or fail at once with the remedy; they never wait forever."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import spherec
from spherec.data.interactions import Interactions
from tests.recommender.models import model_of

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

# The parent does everything that starts threads: it recommends, trains with many threads, uses an index and polars,
# and one of its threads is in the middle of training when it forks.
SCRIPT = """
import multiprocessing, os, sys, threading, time
import numpy as np, polars, torch
import spherec
from spherec.data.ids import IdMap
from spherec.errors import ForkedProcessError
from spherec.ranking.usearch import Hnsw

path, children = sys.argv[1], int(sys.argv[2])
settings = {"dim": 16, "sampler": spherec.Uniform(2), "batch_size": 4096, "epochs": 2, "device": "cpu"}
model = spherec.load(path, device="cpu")
users, items = list(model.data.user_ids), list(model.data.item_ids)
true, placed = model.recommend(users, 5), model.recommend_for(items[:3], 5)
spherec.CML(**settings).fit(model.data, validation=0, progress=False)
other, texts = spherec.CML(**settings), list(map(str, range(100_000)))
inside, go_on = threading.Event(), threading.Event()

def hold(*_):
    inside.set()
    go_on.wait()

training = threading.Thread(target=lambda: other.fit(model.data, validation=0, progress=hold))
training.start()
inside.wait()
indexed = spherec.load(path, device="cpu").build_index(None, Hnsw(exact_beyond=1.0))
listed = indexed.recommend(users[:20], 5)
true.to_polars().group_by("item").len()
assert torch.get_num_threads() == 2

def bother():
    while not go_on.is_set():
        indexed.recommend(users[:20], 5)
        IdMap(texts).find(["7"])

for _ in range(2):
    threading.Thread(target=bother).start()

def ask():
    assert torch.get_num_threads() == 1
    assert model.recommend(users, 5).columns["item"] == true.columns["item"]
    np.testing.assert_allclose(model.recommend(users, 5).columns["score"], true.columns["score"], atol=1e-6)
    assert model.recommend_for(items[:3], 5).columns["item"] == placed.columns["item"]
    assert list(IdMap(["7"]).find(["7"])) == [0]
    assert indexed.recommend(users[:20], 5).columns["item"] == listed.columns["item"]
    assert spherec.load(path, device="cpu").recommend(users, 5).columns["item"] == true.columns["item"]
    other.fit(model.data, validation=0, progress=False).recommend(users, 5)
    other.build_index()
    files = lambda: model.recommend_to_file(path + ".parquet"), lambda: spherec.read(path + ".csv")
    for use in (true.to_polars, *files):
        try:
            use()
        except ForkedProcessError as error:
            assert "spawn" in str(error)
        else:
            raise AssertionError("polars waits forever here")
    model.recommend_to_file(f"{path}.{os.getpid()}.csv")

__file__, slowest = path, 0.0
fork = multiprocessing.get_context("fork")
for first in range(0, children, 4):
    began = time.perf_counter()
    batch = [fork.Process(target=ask) for _ in range(min(4, children - first))]
    for child in batch:
        child.start()
    for child in batch:
        child.join(120)
        if child.exitcode != 0:
            child.kill()
            os._exit(3)
    slowest = max(slowest, time.perf_counter() - began)
go_on.set()
training.join()
true.to_polars().group_by("item").len()
print(f"{children} children answered, the slowest four in {slowest:.1f} s")
"""


@pytest.mark.parametrize("children", [4, pytest.param(100, marks=pytest.mark.slow)])
def test_forked_processes_answer(children, tmp_path):
    rows = np.random.default_rng(0).random((400, 3000)) < 0.01
    model_of(Interactions.from_matrix(rows), dim=64).save(tmp_path / "m.spherec")
    (tmp_path / "m.spherec.csv").write_text("user,item\nu,i\n")
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": str(Path(spherec.__file__).parents[1])}
    words = [sys.executable, "-c", SCRIPT, str(tmp_path / "m.spherec"), str(children)]
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, check=False, timeout=60 + 60 * children
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"{children} children answered" in done.stdout
