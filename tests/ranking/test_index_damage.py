"""A damaged index file is refused: no crash, no other list, no memory. Runs in processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.ranking.test_usearch import GRAPH, clustered

pytest.importorskip("usearch")
from spherec.ranking.usearch import UsearchRanker

ROOM = 1 << 30  # bytes that loading may take beyond what the process has

TRY = """
import json, resource, sys, time
import numpy as np
from spherec.errors import DataError
from spherec.ranking.usearch import UsearchRanker
from tests.ranking.test_index_damage import ROOM, mutate
from tests.ranking.test_usearch import clustered

path, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
vectors, users = clustered(), np.arange(40)
whole = open(path, "rb").read()
true = UsearchRanker.load(path, vectors).top(users, 20)
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, taken + ROOM))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
told = {"refused": 0, "the same lists": 0, "other lists": 0, "slowest": 0.0}
for number in range(first, last):
    open(f"{path}.{first}", "wb").write(mutate(whole, number))
    began = time.perf_counter()
    try:
        found = UsearchRanker.load(f"{path}.{first}", vectors).top(users, 20)
    except DataError:
        told["refused"] += 1
    else:
        same = np.array_equal(found.items, true.items) and np.array_equal(found.scores, true.scores)
        told["the same lists" if same else "other lists"] += 1
    told["slowest"] = max(told["slowest"], time.perf_counter() - began)
told["more MB"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
print(json.dumps(told))
"""


def mutate(whole, number):
    """Damage of a kind and at a place that the number decides."""
    random = np.random.default_rng([15, number])
    content = bytearray(whole)
    at = int(random.integers(len(whole)))
    if random.random() < 0.1:  # the description and the checksum
        at = len(whole) - 1 - int(random.integers(300))
    length = int(2 ** random.uniform(0, 14))
    match number % 8:
        case 0:
            content[at] ^= 1 << int(random.integers(8))
        case 1:
            content[at] = int(random.integers(256))
        case 2:
            for place in random.integers(len(whole), size=int(random.integers(2, 9))).tolist():
                content[place] ^= 1 << int(random.integers(8))
        case 3:
            content[at : at + length] = bytes(len(content[at : at + length]))
        case 4:
            content[at : at + length] = random.bytes(len(content[at : at + length]))
        case 5:
            del content[at:]
        case 6:
            del content[at : at + length]
        case _:
            content[at:at] = content[at : at + length]
    return bytes(content)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    path = tmp_path_factory.mktemp("damage") / "i.usearch"
    UsearchRanker.build(clustered(), GRAPH).save(path)
    return path


@pytest.mark.parametrize(("cases", "batch"), [(240, 240), pytest.param(5000, 500, marks=pytest.mark.slow)])
def test_a_damaged_index_is_refused(index, cases, batch):
    whole = index.read_bytes()
    root = Path(__file__).parents[2]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    for first in range(0, cases, batch):
        words = [sys.executable, "-c", TRY, str(index), str(first), str(first + batch)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, (first, done.returncode, done.stderr[-2000:])
        told = json.loads(done.stdout)
        print(first, told)
        untouched = sum(mutate(whole, number) == whole for number in range(first, first + batch))
        assert told["other lists"] == 0
        assert told["the same lists"] == untouched
        assert told["refused"] == batch - untouched
        assert told["more MB"] < 100
        assert told["slowest"] < 10
