"""Training in several processes: the same model in any number of them, and what happens when one is gone.

With NCCL processes may share a GPU, as if it were in several hosts.
"""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
import torch
from torch import distributed

import spherec
import spherec.training
from spherec import rng
from spherec.distributed import group as process_group
from spherec.distributed import table as held_vectors
from spherec.distributed.crew import ProcessCrew
from spherec.distributed.group import ProcessGroup, join_group
from spherec.distributed.held import PartitionedBatches, hold
from spherec.distributed.partitions import PartitionedInteractions, save_partitions
from spherec.distributed.table import ShareGenerator, draw_held, hold_vectors
from spherec.errors import ArgumentError, DataError, LostProcessError
from spherec.geometry import DenseVectors
from spherec.sampling import TwoStage, Uniform
from spherec.training import RunFiles, Training
from tests.sampling.checks import CPU, interactions
from tests.training.crew import DATA, SETTINGS, config_of, plain, run
from tests.training.runs import SAMPLERS, Alike, difference, start

ROUNDING = 1e-5
ON_GPUS = 1e-4  # rounding, too
GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.skipif(not distributed.is_nccl_available(), reason="torch has no NCCL here"),
]


def on_gpus(*values):
    return pytest.param(*values, "cuda", marks=GPU)


@pytest.mark.parametrize("settings", ["uniform", "two-stage", "softmin"])
def test_two_processes_learn_what_one_does(crew, settings):
    alone, together = (crew("run", n, settings=settings, validated=True)[0] for n in (1, 2))
    assert difference(alone, together) <= (ROUNDING if settings == "softmin" else 0)
    assert [epoch["epoch"] for epoch in together["history"]] == [1, 2, 3]
    for one, other in zip(alone["history"], together["history"], strict=True):
        assert one == pytest.approx(other, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS)
def test_any_number_of_processes_learns_the_same(crew, settings):
    alone, *others = (crew("run", n, settings=settings, epochs=9)[0] for n in (1, 2, 3, 4))  # 9 · 34 steps
    exact = settings not in ("softmin", "subspaces")
    for other in others:
        assert difference(alone, other) <= (0 if exact else ROUNDING)


@pytest.mark.parametrize(
    ("settings", "processes", "device"),
    [
        on_gpus("uniform", (1, 2)),
        on_gpus("ball", (1, 2)),
        on_gpus("two-stage", (2, 3)),  # one process draws two-stage negatives in kernels of its own
        on_gpus("softmin", (1, 2, 4)),
        on_gpus("subspaces", (1, 2)),
    ],
)
def test_any_number_of_processes_on_gpus_learns_the_same(crew, settings, processes, device):
    first, *others = (crew("run", n, settings=settings, device=device)[0] for n in processes)
    assert max(difference(first, other) for other in others) <= ON_GPUS


@pytest.mark.parametrize("settings", ["uniform", "softmin"])
def test_one_process_of_a_group_learns_what_a_process_alone_does(crew, settings):
    (grouped,), alone = crew("run", 1, settings=settings), plain(settings)
    assert difference(grouped, alone) == 0
    assert grouped["history"] == alone["history"]


@pytest.mark.parametrize(
    ("settings", "validated", "others", "device"),
    [
        ("two-stage", True, (2, 1, 3), "cpu"),
        pytest.param("softmin", False, (2, 1, 3), "cpu", marks=pytest.mark.slow),
        on_gpus("two-stage", True, (2, 3)),
        on_gpus("softmin", True, (2, 1)),
    ],
)
def test_another_number_of_processes_continues(crew, tmp_path, settings, validated, others, device):
    options = {"settings": settings, "validated": validated, "device": device}
    whole = crew("run", 1 if device == "cpu" else 2, **options)[0]
    checkpointed = {**options, "checkpoint": "c"}
    stopped = crew("stop_in_one", 2, at=47, rank=1, **checkpointed)
    assert [one["ended"] for one in stopped] == ["interrupted"] * 2
    kept = {path.name: path.read_bytes() for path in tmp_path.glob("c*")}
    assert [name[:8] for name in sorted(kept)] == ["c", "c.0-of-2", "c.1-of-2"]
    for processes in others:
        for name, content in kept.items():
            (tmp_path / name).write_bytes(content)
        resumed = crew("run", processes, resume=True, **checkpointed)[0]
        assert difference(whole, resumed) <= (ON_GPUS if device == "cuda" else ROUNDING if settings == "softmin" else 0)
        assert resumed["ended"] == "all epochs done"
        for path in tmp_path.glob("c*"):
            path.unlink()


def test_there_may_be_fewer_items_than_processes(crew, tmp_path):
    save_partitions(interactions([[1, 0], [0, 1], [1, 0]]), tmp_path / "few.parts", 3)
    options = {"settings": "softmin", "data": "few.parts", "validated": True, "epochs": 4}
    whole = crew("run", 1, **options)[0]
    crew("stop_in_one", 3, at=2, rank=0, checkpoint="c", **options)
    resumed = crew("run", 1, resume=True, checkpoint="c", **options)[0]
    assert difference(whole, resumed) <= ROUNDING


def test_a_checkpoint_of_a_process_alone_is_not_one_of_a_group(crew, tmp_path):
    plain("uniform", epochs=1, checkpoint=tmp_path / "c")
    with pytest.raises(AssertionError):
        crew("run", 1, settings="uniform", epochs=2, checkpoint="c", resume=True)
    (tmp_path / "c").unlink()
    crew("run", 2, settings="uniform", epochs=1, checkpoint="c")
    with pytest.raises(DataError, match="processes"):
        plain("uniform", epochs=2, checkpoint=tmp_path / "c", resume=True)


@pytest.mark.parametrize("name", ["seed", "data", "ids", "weights", "resume", "validation", "data, in parts"])
def test_processes_that_were_not_started_alike_are_refused(crew, tmp_path, name):
    save_partitions(DATA, tmp_path / "parts", 2)
    for one in crew("run_unlike", 2, name=name, settings="uniform"):
        assert f"not started alike: {name.partition(',')[0]} are not the same" in one["said"]


def test_one_clock_decides_when_to_write_checkpoints(crew):
    first, second = crew("count_checkpoints", 2, settings="uniform", checkpoint="c", checkpoint_seconds=0)
    assert first["saves"] == second["saves"] > 0
    first, second = crew("count_checkpoints", 2, late=0, settings="uniform", checkpoint="c", checkpoint_seconds=0)
    assert first["saves"] == second["saves"] == 0


@pytest.mark.parametrize("ended", ["at its end", "interrupted"])
def test_a_model_that_process_0_cannot_hold_leaves_the_checkpoint(crew, tmp_path, ended):
    options = {"settings": "softmin", "checkpoint": "c", "validated": True}
    at = 47 if ended == "interrupted" else None
    first, _ = crew("gather_too_much", 2, at=at, **options)
    assert "--shards" in first["said"]
    assert str(tmp_path / "c") in first["notes"][0]
    whole, resumed = crew("run", 1, **(options | {"checkpoint": "d"}))[0], crew("run", 2, resume=True, **options)[0]
    assert difference(whole, resumed) <= ROUNDING


@pytest.mark.parametrize("device", ["cpu", on_gpus()])
def test_a_lost_process_ends_the_others_with_one_sentence(crew, device):
    first, second, third = crew("lose_one", 3, ends=[0, 9, 0], settings="uniform", at=20, rank=1, device=device)
    assert second is None
    for one in (first, third):
        assert "a process of this run has ended" in one["said"]
        assert one["seconds"] < 10


@pytest.mark.slow
def test_killed_at_any_moment_a_run_continues_as_if_it_had_not_been(crew, tmp_path):
    whole = crew("run", 1, settings="uniform", epochs=6)[0]
    options = {"settings": "uniform", "epochs": 6, "checkpoint": "c", "checkpoint_seconds": 0}
    random, in_the_middle = np.random.default_rng(0), 0
    for kill in range(20):
        for path in tmp_path.glob("c*"):
            path.unlink()
        in_the_middle += crew("run", 2, kill=[kill % 2, random.uniform(0, 2)], **options)[0] is None
        resumed = crew("run", (2, 1, 3)[kill % 3], resume=True, **options)[0]
        assert difference(whole, resumed) == 0
        assert [epoch["epoch"] for epoch in resumed["history"]] == [1, 2, 3, 4, 5, 6]
    assert in_the_middle >= 10


@pytest.mark.parametrize(("rank", "is_written"), [(1, False), (0, False), (0, True)])
def test_a_set_that_one_process_cannot_write_leaves_a_whole_one(crew, tmp_path, rank, is_written):
    options = {"settings": "uniform", "epochs": 1, "checkpoint": "c", "checkpoint_seconds": 0}
    said = [one["said"] for one in crew("fail_to_write", 2, rank=rank, is_written=is_written, **options)]
    assert [bool(one) for one in said] == [not rank, bool(rank)]
    assert "no checkpoint: the disk is full" in said[rank][0]
    assert sorted(path.name[:8] for path in tmp_path.glob("c*")) == ["c", "c.0-of-2", "c.1-of-2"]
    resumed = crew("run", 2, resume=True, **options)[0]
    assert difference(crew("run", 1, settings="uniform", epochs=1)[0], resumed) == 0


# --- partitioned data ------------------------------------------------------------------------------------------------


@pytest.fixture
def partitioned(tmp_path):
    save_partitions(DATA, tmp_path / "data.parts", 4)
    return "data.parts"


def test_a_process_alone_learns_from_partitions_what_several_do(crew, tmp_path, partitioned):
    (grouped,) = crew("run", 1, settings="two-stage", data=partitioned)
    alone = run("two-stage", tmp_path, data=partitioned)
    assert difference(grouped, alone) == 0


@pytest.mark.parametrize("settings", ["uniform", "softmin"])
def test_two_processes_learn_what_one_does_from_weighed_partitions(crew, tmp_path, partitioned, settings):
    save_partitions(replace(DATA, weights=1 + np.arange(len(DATA)) % 9.0), tmp_path / "weighed.parts", 4)
    options = {"settings": settings, "data": "weighed.parts", "validation": 0.2}
    alone, together = (crew("fit", n, **options)[0] for n in (1, 2))
    assert difference(alone, together) <= (0 if settings == "uniform" else ROUNDING)
    unweighed = crew("fit", 1, **{**options, "data": partitioned})[0]
    assert difference(alone, unweighed) > ROUNDING


def test_a_run_on_weighed_partitions_continues_in_another_number_of_processes(crew, tmp_path):
    weighed = replace(DATA, weights=1 + np.arange(len(DATA)) % 9.0)
    save_partitions(weighed, tmp_path / "weighed.parts", 4)
    options = {"settings": "uniform", "data": "weighed.parts"}
    whole = crew("run", 1, **options)[0]
    crew("stop_in_one", 2, at=47, rank=0, checkpoint="c", **options)
    resumed = crew("run", 1, resume=True, checkpoint="c", **options)[0]
    assert difference(whole, resumed) == 0
    crew("fit_in_shards", 2, validation=0.0, **options)
    assert spherec.load(tmp_path / "m.spherec").data == weighed


@pytest.mark.parametrize("device", ["cpu", on_gpus()])
def test_a_model_of_partitions_has_all_pairs_and_ids_and_was_validated_by_all_processes(crew, partitioned, device):
    options = {"settings": "softmin", "data": partitioned, "validation": 0.2, "device": device}
    alone, together = (crew("fit", n, **options)[0] for n in (1, 2))
    assert together["pairs"].tolist() == DATA.indices.tolist()
    assert together["ids"] == list(DATA.item_ids)
    assert difference(alone, together) <= (ON_GPUS if device == "cuda" else ROUNDING)
    metrics = [[epoch["metric"] for epoch in one["history"]] for one in (alone, together)]
    assert metrics[0] == pytest.approx(metrics[1], abs=1e-3 if device == "cuda" else 1e-6)
    assert all(metrics[0])


@pytest.mark.parametrize(
    ("processes", "is_partitioned", "device"),
    [(1, False, "cpu"), (2, True, "cpu"), (3, False, "cpu"), on_gpus(2, False)],
)
def test_each_process_writes_the_vectors_that_it_holds(crew, tmp_path, partitioned, processes, is_partitioned, device):
    options = {"settings": "softmin", "validation": 0.0, "device": device}
    options |= {"data": partitioned} if is_partitioned else {}
    (whole, *_) = crew("fit", processes, **options)
    parts = crew("fit_in_shards", processes, **options)
    loaded = spherec.load(tmp_path / "m.spherec")
    assert len(list(tmp_path.glob("m.spherec.*"))) == processes
    assert torch.equal(loaded.vectors.user_table, whole["users"])
    assert torch.equal(loaded.vectors.item_table, whole["items"])
    assert torch.equal(loaded.vectors.item_reach, whole["reach"])
    assert loaded.data == DATA
    for rank, part in enumerate(parts):
        own = spherec.load(tmp_path / "m.spherec", users=(rank, processes), items=(rank, processes))
        assert part["users"] == list(own.data.user_ids)
        assert part["items"] == list(own.data.item_ids) == list(DATA.item_ids)[rank::processes]


@pytest.mark.parametrize("what", ["disk", "memory"])
def test_a_shard_that_cannot_be_written_ends_all_processes_and_the_checkpoint_stays(crew, tmp_path, what):
    said = crew("fit_in_shards", 2, settings="uniform", full=[what, 1], checkpoint=str(tmp_path / "c"))
    assert f"the {what} is full" in said[1]["said"]
    assert not (tmp_path / "m.spherec").exists()
    crew("fit_in_shards", 2, settings="uniform", checkpoint=str(tmp_path / "c"), resume=True)
    assert sorted(file.name[:17] for file in tmp_path.glob("[cm]*")) == [
        "m.spherec",
        "m.spherec.0-of-2.",
        "m.spherec.1-of-2.",
    ]


def test_shards_of_a_run_need_several_processes_and_an_output(tmp_path):
    with pytest.raises(ArgumentError, match="in_shards"):
        RunFiles(in_shards=True)
    quick = Training(dim=4, epochs=1)
    with pytest.raises(ArgumentError, match="in_shards"):
        spherec.CML.from_config(quick, device="cpu").fit(DATA, files=RunFiles(tmp_path / "m", in_shards=True))
    with pytest.raises(ArgumentError, match="both"):
        RunFiles(tmp_path / "m", tmp_path / "m")


def test_batches_of_partitions_have_every_pair_once_and_about_as_many_of_each(partitioned, tmp_path):
    data = hold(PartitionedInteractions.open(tmp_path / partitioned), ProcessGroup(CPU))
    seen = []

    class Recorder:
        config, n_items, vectors = config_of("uniform"), DATA.n_items, start(DATA)
        generator = torch.Generator()

        def step(self, users, positives):
            seen.append(torch.stack((users, positives), 1))

    batches = PartitionedBatches(Recorder(), data)
    batches.begin(3, 0)
    while sum(map(len, seen)) < len(data):
        assert batches.step()[0] <= 16
    assert all(abs(len(batch) - 16) <= 2 for batch in seen[:-1])
    pairs = torch.cat(seen)
    assert sorted(map(tuple, pairs.tolist())) == list(zip(DATA.users.tolist(), DATA.indices.tolist(), strict=True))
    batches.begin(3, 32)
    batches.step()
    assert torch.equal(seen[-1], seen[2])
    batches.begin(4, 0)
    batches.step()
    assert not torch.equal(seen[-1], seen[0])


# --- bytes on the wire -----------------------------------------------------------------------------------------------

ROW, NUMBER, PLACE = 4 * 8, 8, 8  # bytes of a row of QUICK, of its number, its place in the batch


@pytest.mark.parametrize(("users", "items"), [(60, 90), (600, 2000)])
def test_bytes_go_by_the_batch_whatever_the_number_of_users_and_items(crew, users, items):
    pairs, pool = 16, 40
    row = 2 * ROW + 2 * NUMBER + PLACE  # asked for, answered, and its gradient sent
    for result in crew("count_bytes", 2, settings="softmin", users=users, items=items, reach=False, epochs=1):
        assert pairs * ROW / 2 < result["sent"] / result["steps"] < (pairs + 2 * pool) * row


# --- groups ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def group_of_one(tmp_path):
    """A group of this process alone, as torch makes it where no backend is named."""
    distributed.init_process_group(init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield join_group(CPU)
    distributed.destroy_process_group()


def test_partitions_have_no_ids_for_features_and_names(tmp_path):
    save_partitions(DATA, tmp_path / "p", 2)
    data, model = PartitionedInteractions.open(tmp_path / "p"), spherec.CML(device="cpu", dim=8, epochs=1)
    for more in ({"item_features": np.eye(DATA.n_items)}, {"names": {"a": "A"}}):
        with pytest.raises(ArgumentError, match=r"read\(\)"):
            model.fit(data, validation=0, **more)


def test_more_processes_than_gpus_are_refused(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "2")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ArgumentError, match="4 processes on this machine, which has 2 GPUs"):
        process_group._choose_gpu()


def test_a_fault_of_ours_is_not_reported_as_a_lost_process(group_of_one):
    with pytest.raises(RuntimeError, match="Split sizes") as raised:
        group_of_one.exchange(torch.zeros(4), [3], [3])
    assert not isinstance(raised.value, LostProcessError)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("remote process exited, NCCL version 2.28.9\nncclRemoteError: A call failed.", "has ended before the others"),
        (
            "system error\nLast error:\n/dev/shm: No space left\n",
            "cannot reach each other: /dev/shm: No space left; NCCL",
        ),
    ],
)
def test_what_nccl_says_is_told(group_of_one, said, told):
    def fail(*_):
        raise distributed.DistBackendError(said)

    with pytest.raises(LostProcessError, match=told):
        group_of_one._run(fail)


# --- shares ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_processes_wait_for_hours_while_one_writes_and_have_one_backend(monkeypatch, backend):
    given, store = {}, distributed.HashStore()
    monkeypatch.setattr(distributed, "rendezvous", lambda _: iter([(store, 0, 1)]))
    monkeypatch.setattr(distributed, "init_process_group", lambda *_, **options: given.update(options))
    process_group._join_torchrun(backend)
    assert given["timeout"] >= timedelta(hours=6)
    with pytest.raises(ArgumentError, match=f"would talk with other, and another one with {backend}"):
        process_group._join_torchrun("other")


@pytest.mark.parametrize("name", sorted(set(SAMPLERS) - {"two-stage frozen"}))
def test_draws_do_not_depend_on_who_draws_them(name):
    vectors = start(DATA)
    sampler = SAMPLERS[name].build(DATA, CPU, initial_items=vectors.item_table)
    users, positives = (torch.tensor(column[:64]).long() for column in (DATA.users, DATA.indices))

    def draw(places):
        generator = ShareGenerator(CPU)
        generator.manual_seed(5)
        generator.size, generator.places = len(users), places
        drawn = [sampler.sample(users[places], positives[places], vectors, generator) for _ in range(2)]
        return drawn[1], generator.get_state()

    everything, state = draw(torch.arange(64))
    for places in (torch.arange(0, 64, 3), torch.tensor([63]), torch.tensor([], dtype=torch.int64)):
        part, after = draw(places)
        items = everything.items if len(everything.items) == 1 else everything.items[places]
        assert torch.equal(part.items, items)
        assert torch.equal(part.valid, everything.valid[places])
        assert torch.equal(after, state)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("dim", [2, 7, 16])
def test_first_vectors_are_those_of_one_process(monkeypatch, n, dim):
    monkeypatch.setattr(held_vectors, "_BLOCK", 16)
    config = Training(dim=dim, seed=3)
    whole = DenseVectors.random(DATA.n_users, DATA.n_items, dim, rng.torch_stream(3, "initial vectors"))
    for rank in range(n):
        group = Alike(rank, n)
        drawn, held = draw_held(DATA, config, group), hold_vectors(whole, group)
        assert torch.equal(drawn.user_table, held.user_table)
        assert torch.equal(drawn.item_table, held.item_table)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"covariance": 1.0}, "covariance"),
        ({"spread_out": 1.0}, "spread_out"),
        ({"sampler": TwoStage.as_released()}, "frozen"),
        ({"sampler": type("Mine", (Uniform,), {"draws_alike": False})()}, "the sampler Mine"),
        ({"has_features": True}, "item_features"),
    ],
)
def test_settings_that_need_one_process_are_refused_to_several(changes, said):
    has_features = changes.pop("has_features", False)
    with pytest.raises(ArgumentError, match=said):
        ProcessCrew(Alike(0, 2)).check_settings(Training(**changes), has_features=has_features)
    ProcessCrew(Alike(0, 1)).check_settings(Training(**changes), has_features=has_features)
