"""Groups of processes for tests of training in several: a server that forks them.

    python -m tests.training.crew

For each line of JSON on standard input, {"task": …, "processes": n, "folder": …, "options": {…}, "kill": …}, it forks n
processes that form a group and run a task of this file: with gloo, or, if "device" in the options is "cuda", with NCCL.
Each leaves what the task returns in the folder, by its rank. "kill" is null, or the rank of a process to kill and the
seconds from the first checkpoint "c" on. The server prints a line with the exit status of each process.
"""

import json
import os
import signal
import sys
import time
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import distributed

from spherec.artifact import Artifact
from spherec.data.ids import IdMap
from spherec.distributed import checkpoint as checkpoint_set
from spherec.distributed import crew as process_crew
from spherec.distributed import group as process_group
from spherec.distributed import shards
from spherec.distributed.partitions import PartitionedInteractions
from spherec.errors import ArgumentError, DataError, LostProcessError, TrainingError
from spherec.losses import Softmin
from spherec.recommender import CML
from spherec.sampling import Hard, Popularity, TwoStage, Uniform
from spherec.training import Run, RunFiles, join, train, trainer
from tests.sampling.checks import CPU, interactions, random_rows
from tests.training.runs import QUICK, at_step, facts, watch

DATA = interactions(random_rows(60, 90, 0.1))
SETTINGS = {
    "uniform": {"sampler": Uniform(3)},
    "two-stage": {"sampler": TwoStage(2, candidates=60, sharpness=0.05), "dim": 16},
    "many negatives": {"sampler": TwoStage(20, candidates=60)},
    "hard": {"sampler": Hard(2)},
    "ball": {"sampler": Popularity(2), "constraint": "ball"},
    "softmin": {"sampler": Uniform(40, shared=True), "loss": Softmin(), "reach": True},
    "subspaces": {
        "sampler": Popularity(40, shared=True),
        "loss": Softmin(),
        "reach": True,
        "dim": 16,
        "subspace_dim": 8,
        "balance": 0.5,
    },
}


def config_of(name, **changes):
    return replace(QUICK, **{**SETTINGS[name], **changes})


def first_of(vectors):
    """A metric that looks at users, items and blocks, and has its best in the first epochs."""
    blocks = sum(float(block.double().square().sum()) for block in vectors.item_blocks())
    least = min(vectors.n_users, vectors.n_items)
    users, items = (torch.arange(min(count, least), device=vectors.device) for count in (7, 11))
    return float(vectors.users(users).double().sum() + vectors.items(items).double().sum()) + blocks


def run(settings, folder, data=DATA, device="cpu", **options):
    """Train; return all that a run leaves. `data` may be the name of a partitioned data set in the folder."""
    if isinstance(data, str):
        data = PartitionedInteractions.open(Path(folder) / data)
    together = join(device, data)
    changes = {name: options.pop(name) for name in list(options) if name in QUICK.__dataclass_fields__}
    validate = first_of if options.pop("validated", False) else None
    if "checkpoint" in options:
        options["checkpoint"] = Path(folder or "") / options["checkpoint"]
    begun = Run(together.take(data), config_of(settings, **changes), crew=together)
    done = train(begun, validate, files=RunFiles(**options))
    vectors = done.vectors.to(CPU)
    return {
        "users": vectors.user_table,
        "items": vectors.item_table,
        "reach": vectors.item_reach,
        "history": facts(done.history),
        "ended": done.ended,
    }


def fit(settings, folder, data=None, device="cpu", **options):
    """Fit a model, with a validation; return its history, and the model if this is process 0."""
    changes = {name: options.pop(name) for name in list(options) if name in QUICK.__dataclass_fields__}
    data = DATA if data is None else PartitionedInteractions.open(Path(folder) / data)
    seen = []
    model = CML.from_config(config_of(settings, **changes), device=device)
    model.fit(data, progress=lambda _, history: seen.append(facts(history)), **options)
    if distributed.is_initialized() and distributed.get_rank():
        return None
    vectors = model.vectors.to(CPU)
    tables = {"users": vectors.user_table, "items": vectors.item_table, "reach": vectors.item_reach}
    return {**tables, "history": seen[-1], "pairs": torch.tensor(model.data.indices), "ids": list(model.data.item_ids)}


def fit_in_shards(settings, folder, data=None, full=None, device="cpu", validation=None, **options):
    """Fit a model whose processes write what they hold; return what each has then, or what it is told if the disk, or
    the memory, of process `full` is full."""
    write, make = shards.write_part, Artifact.of

    def fail(path, *given, **options):
        if full == ["disk", distributed.get_rank()] and path.name.startswith("m.spherec"):
            raise DataError("the disk is full")
        return write(path, *given, **options)

    def lack(*given):
        if full == ["memory", distributed.get_rank()]:
            raise DataError("the memory is full")
        return make(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "write_part", fail)
        patch.setattr(Artifact, "of", lack)
        patch.setattr(process_crew, "gather_vectors", lambda *_: pytest.fail("a process holds all vectors"))
        data = DATA if data is None else PartitionedInteractions.open(Path(folder) / data)
        model = CML.from_config(config_of(settings), device=device)
        files = RunFiles(Path(folder) / "m.spherec", in_shards=True, **options)
        try:
            model.fit(data, progress=False, validation=validation, files=files)
        except (DataError, LostProcessError) as error:
            return {"said": str(error)}
    return {"users": list(model.data.user_ids), "items": list(model.data.item_ids), "ended": model.artifact.ended}


def stop_in_one(settings, folder, at, rank, **options):
    """Train, and ask one process to stop at a step."""
    with pytest.MonkeyPatch.context() as patch:
        if distributed.get_rank() == rank:
            watch(patch, at_step(at, lambda: os.kill(os.getpid(), signal.SIGINT)))
        return run(settings, folder, **options)


def lose_one(settings, folder, at, rank, **options):
    """Train, and kill one process at a step; return what the others are told, and how soon."""
    with pytest.MonkeyPatch.context() as patch:
        if distributed.get_rank() == rank:
            watch(patch, at_step(at, lambda: os.kill(os.getpid(), signal.SIGKILL)))
        else:
            began = [0.0]
            watch(patch, at_step(at, lambda: began.__setitem__(0, time.monotonic())))
        try:
            run(settings, folder, **options)
        except LostProcessError as error:
            return {"said": str(error), "seconds": time.monotonic() - began[0]}
        return {"said": None}


def run_unlike(settings, folder, name, **options):
    """Train with something else in each process; return what they are told."""
    rank = distributed.get_rank()
    unlike = {
        "seed": {"seed": rank},
        "data": {"data": interactions(random_rows(60, 90, 0.1, seed=rank))},
        "ids": {"data": replace(DATA, item_ids=IdMap([f"item {rank} {item}" for item in range(DATA.n_items)]))},
        "weights": {"data": replace(DATA, weights=np.ones(len(DATA)) if rank else None)},
        "resume": {"checkpoint": f"c{rank}", "resume": rank == 1},
        "validation": {"data": "parts", "validation": rank / 9},
        "data, in parts": {"data": "parts" if rank else None, "validation": 0.1},
    }
    try:
        (fit if "validation" in unlike[name] else run)(settings, folder, **(options | unlike[name]))
    except ArgumentError as error:
        return {"said": str(error)}


def count_checkpoints(settings, folder, late=None, **options):
    """Train; return how often checkpoints were written. The clock of process `late` never says that it is time."""
    saves, save = [], process_crew.write_parts
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process_crew, "write_parts", lambda *given: (saves.append(1), save(*given))[1])
        if distributed.get_rank() == late:
            patch.setattr(trainer.Timer, "is_due", lambda _: False)
        run(settings, folder, **options)
    return {"saves": len(saves) - 1}  # the last is written at the end


def lack_memory(function):
    def fail(*_):
        raise MemoryError

    def call(*given):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "empty", fail)
            return function(*given)

    return call


def gather_too_much(settings, folder, at=None, **options):
    """Train where the memory of process 0 is too small for all vectors; return what each process is told."""
    with pytest.MonkeyPatch.context() as patch:
        if at is not None and distributed.get_rank() == 0:
            watch(patch, at_step(at, lambda: os.kill(os.getpid(), signal.SIGTERM)))
        if distributed.get_rank() == 0:
            patch.setattr(process_crew, "gather_vectors", lack_memory(process_crew.gather_vectors))
        try:
            run(settings, folder, **options)
        except TrainingError as error:
            return {"said": str(error), "notes": error.__notes__}


def fail_to_write(settings, folder, rank, is_written=False, **options):
    """Train with a disk that fails for one process within the second checkpoint, perhaps after everything is written.

    That is its part, or in process 0, which writes a part and the file that names all, the latter.
    """
    calls = [0]

    def failing(whole):
        def write(*given, **facts):
            calls[0] += 1
            is_failing = calls[0] > (1 if rank else 3) and distributed.get_rank() == rank
            name = whole(*given, **facts) if is_written or not is_failing else None
            if is_failing:
                raise DataError("the disk is full")
            return name

        return write

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name in ("write_part", "write_container"):
            patch.setattr(checkpoint_set, name, failing(getattr(checkpoint_set, name)))
        run(settings, folder, **options)
    return {"said": [str(one.message) for one in caught]}


def count_bytes(settings, folder, users=60, items=90, **options):
    """Train, and return the bytes that this process sent, and the number of steps."""
    data = interactions(random_rows(users, items, 6 / items))
    groups = []
    make = process_group.ProcessGroup

    def remember(*given):
        groups.append(make(*given))
        return groups[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process_group, "ProcessGroup", remember)
        run(settings, folder, data, **options)
    return {"sent": groups[0].sent_bytes, "steps": -(-len(data) // QUICK.batch_size)}


TASKS = {task.__name__: task for task in (run, fit, fit_in_shards, stop_in_one, lose_one, fail_to_write, count_bytes)}
TASKS |= {task.__name__: task for task in (run_unlike, count_checkpoints, gather_too_much)}


def work(rank, n, task, folder, options):
    torch.set_num_threads(1)
    backend = "nccl" if options.get("device") == "cuda" else "gloo"
    if backend == "nccl":
        os.environ["NCCL_HOSTID"] = str(rank)  # NCCL refuses two processes on one GPU, unless on two hosts
        os.environ["NCCL_SOCKET_IFNAME"] = "lo"
        os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"  # as under torchrun
        os.environ["TORCH_NCCL_DUMP_ON_TIMEOUT"] = "0"
        torch.cuda.set_device(rank % torch.cuda.device_count())
    distributed.init_process_group(backend, init_method=f"file://{folder}/store-{n}", rank=rank, world_size=n)
    result = TASKS[task](folder=folder, **options)
    torch.save(result, Path(folder) / f"{rank}.pt")


@cache
def load_kernels():
    """Load the kernels of a CPU once, and not in every process that is forked."""
    for settings in ("uniform", "two-stage", "subspaces"):
        plain(settings, epochs=1)


def serve():
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["options"].get("device") != "cuda":  # a process that was forked after its parent used a GPU has none
            load_kernels()
        Path(asked["folder"], f"store-{asked['processes']}").unlink(missing_ok=True)
        children = []
        for rank in range(asked["processes"]):
            child = os.fork()
            if not child:
                os.dup2(2, 1)  # NCCL prints there, too
                code = 1
                try:
                    work(rank, asked["processes"], asked["task"], asked["folder"], asked["options"])
                    code = 0
                except BaseException as error:
                    print(f"rank {rank}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                finally:
                    os._exit(code)
            children.append(child)
        if asked["kill"] is not None:
            rank, seconds = asked["kill"]
            while not Path(asked["folder"], "c").exists():
                time.sleep(0.01)
            time.sleep(seconds)
            os.kill(children[rank], signal.SIGKILL)
        print(json.dumps([os.waitpid(child, 0)[1] for child in children]), flush=True)


def plain(settings, **options):
    """The same run in this process alone."""
    return run(settings, None, **options)


if __name__ == "__main__":
    serve()
