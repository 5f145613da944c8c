"""Training in several processes on GPUs, which NCCL connects; they may share a GPU, as if it were in several hosts."""

import pytest
import torch
from torch import distributed

import spherec
from spherec.distributed.partitions import save_partitions
from tests.training.crew import DATA
from tests.training.runs import difference

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.skipif(not distributed.is_nccl_available(), reason="torch has no NCCL here"),
]

ROUNDING = 1e-4


@pytest.mark.parametrize(
    ("settings", "processes"),
    [("uniform", (1, 2)), ("ball", (1, 2)), ("two-stage", (2, 3)), ("softmin", (1, 2, 4)), ("subspaces", (1, 2))],
)
def test_any_number_of_processes_learns_the_same(crew, settings, processes):
    """One process draws two-stage negatives in kernels of its own."""
    first, *others = (crew("run", n, settings=settings, device="cuda")[0] for n in processes)  # 3 · 34 steps
    for other in others:
        assert difference(first, other) <= ROUNDING


def test_processes_read_partitions_and_validate_their_own_users(crew, tmp_path):
    save_partitions(DATA, tmp_path / "data.parts", 4)
    options = {"settings": "softmin", "data": "data.parts", "validation": 0.2, "device": "cuda"}
    alone, together = (crew("fit", n, **options)[0] for n in (1, 2))
    assert difference(alone, together) <= ROUNDING
    assert together["pairs"].tolist() == DATA.indices.tolist()
    metrics = [[epoch["metric"] for epoch in one["history"]] for one in (alone, together)]
    assert metrics[0] == pytest.approx(metrics[1], abs=1e-3)


@pytest.mark.parametrize(("settings", "others"), [("two-stage", (2, 3)), ("softmin", (2, 1))])
def test_another_number_of_processes_continues(crew, tmp_path, settings, others):
    options = {"settings": settings, "validated": True, "device": "cuda"}
    whole = crew("run", 2, **options)[0]
    stopped = crew("stop_in_one", 2, at=47, rank=1, checkpoint="c", **options)
    assert [one["ended"] for one in stopped] == ["interrupted"] * 2
    kept = {path.name: path.read_bytes() for path in tmp_path.glob("c*")}
    for processes in others:
        for name, content in kept.items():
            (tmp_path / name).write_bytes(content)
        resumed = crew("run", processes, resume=True, checkpoint="c", **options)[0]
        assert difference(whole, resumed) <= ROUNDING


def test_each_process_writes_the_vectors_that_it_holds(crew, tmp_path):
    whole = crew("fit", 2, settings="softmin", validation=0.0, device="cuda")[0]
    crew("fit_in_shards", 2, settings="softmin", validation=0.0, device="cuda")
    loaded = spherec.load(tmp_path / "m.spherec")
    assert torch.equal(loaded.vectors.user_table, whole["users"])
    assert torch.equal(loaded.vectors.item_table, whole["items"])


def test_a_lost_process_ends_the_others_with_one_sentence(crew):
    first, second, third = crew("lose_one", 3, ends=[0, 9, 0], settings="uniform", at=20, rank=1, device="cuda")
    assert second is None
    for one in (first, third):
        assert "a process of this run has ended" in one["said"]
        assert one["seconds"] < 10
