"""Measure a step in several processes: its time, the bytes that each process sends, and the memory that each takes.

    torchrun --nproc-per-node 2 benchmarks/processes.py --sampler two-stage
    torchrun --nproc-per-node 4 benchmarks/processes.py --sampler softmin --items 10000000 --dim 32
    torchrun --nproc-per-node 4 benchmarks/processes.py --sampler uniform --pairs 40000000 --dim 8 --partitions 4
    torchrun --nproc-per-node 1 benchmarks/processes.py --sampler two-stage --device cuda

Interactions are generated. With one process, the same steps are also made without a group, in turns. Process 0 prints
a line of JSON: milliseconds of a step (median of the chunks), the most kilobytes that a process sends in a step and the
bound of results/scaling.md, the most megabytes at the peak and those of the rows and moments of a process. With
--partitions, the peak includes the pairs: they are read from a folder of so many partitions, with 0 from one file.
"""

import argparse
import atexit
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from steps import TrainerSteps, generate_interactions

from spherec import rng
from spherec.data.interactions import Interactions
from spherec.device import measure_peak, resolve
from spherec.distributed.crew import ProcessCrew
from spherec.distributed.partitions import PartitionedInteractions, save_partitions
from spherec.geometry import DenseVectors
from spherec.losses import Softmin
from spherec.sampling import Popularity, TwoStage, Uniform
from spherec.training import Crew, Training, join

SETTINGS: dict[str, dict[str, Any]] = {
    "uniform": {"sampler": Uniform(5)},
    "two-stage": {"sampler": TwoStage.tuned(5)},
    "softmin": {"sampler": Popularity(2000, shared=True), "loss": Softmin(0.1), "reach": True},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sampler", choices=SETTINGS, default="two-stage")
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=50, help="steps in a chunk")
    parser.add_argument("--chunks", type=int, default=5)
    parser.add_argument("--partitions", type=int, help="read the pairs from this many files, 0: from one as a whole")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="cpu")
    asked = parser.parse_args()
    device = resolve(asked.device)
    config = Training(dim=asked.dim, batch_size=asked.batch, **SETTINGS[asked.sampler])
    crew = join(device)
    if not isinstance(crew, ProcessCrew):
        raise SystemExit("start it with torchrun")
    group = crew.group
    TrainerSteps(generate_interactions(20, 200, 400), config, tiny(config), Crew(device))(2)  # compile
    load = prepare(crew, asked)
    data = load()
    with measure_peak(device) as peak:
        if asked.partitions is not None:
            del data
            data = load()
        steps = TrainerSteps(data, config, None, crew)
        steps.set_up()
    before = group.sent_bytes
    steps(asked.steps)
    sent = (group.sent_bytes - before) / asked.steps  # with several processes, a call is a step
    contenders = {"together": steps}
    if group.size == 1:
        generator = rng.torch_stream(config.seed, "initial vectors")
        initial = DenseVectors.random(data.n_users, data.n_items, config.dim, generator).to(device)
        contenders["alone"] = TrainerSteps(data, config, initial, Crew(device))
        contenders["alone"].set_up()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(asked.chunks):
        for name, contender in contenders.items():
            group.agree(False)  # begin together
            synchronize(device)
            began = time.perf_counter()
            steps_done = contender(asked.steps).steps
            synchronize(device)
            times[name].append((time.perf_counter() - began) / steps_done * 1000)
    row = config.dim + (config.subspaces if config.reach else 0)
    tables = (data.n_users + data.n_items) * (3 * 4 * row + 8) / group.size
    figures = torch.tensor([sent / 1e3, peak.mb or 0.0], dtype=torch.float64, device=device)
    of_all = torch.stack(group.collect(figures, everywhere=True)).max(0).values.tolist()
    if group.rank == 0:
        record = {
            "processes": group.size,
            **{name: value for name, value in vars(asked).items() if name not in ("steps", "chunks")},
            **{f"{name}_ms": round(statistics.median(ms), 3) for name, ms in times.items()},
            "sent_kb": round(of_all[0], 1),
            "bound_kb": round(bound(config, group.size) / 1e3, 1),
            "peak_mb": round(of_all[1]),
            "tables_mb": round(tables / 1e6),
        }
        print(json.dumps(record), flush=True)


def prepare(crew: ProcessCrew, asked: argparse.Namespace) -> Callable[[], Interactions]:
    """Return a function that loads what this process holds; process 0 writes the files that it reads, if any."""
    group = crew.group
    if asked.partitions is None:
        return lambda: generate_interactions(asked.users, asked.items, asked.pairs)
    folder = Path(tempfile.gettempdir()) / f"spherec-processes-{os.environ['MASTER_PORT']}"
    if group.rank == 0:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        atexit.register(shutil.rmtree, folder)
        data = generate_interactions(asked.users, asked.items, asked.pairs)
        if asked.partitions:
            save_partitions(data, folder / "parts", asked.partitions)
        else:
            data.save(folder / "whole.npz")
    group.agree(False)  # the files are there
    if not asked.partitions:
        return lambda: Interactions.load(folder / "whole.npz")
    return lambda: crew.take(PartitionedInteractions.open(folder / "parts"))


def synchronize(device: torch.device) -> None:
    """Wait until a GPU has done its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def tiny(config: Training) -> DenseVectors:
    """Return vectors of 20 users and 200 items."""
    return DenseVectors.random(20, 200, config.dim, rng.torch_stream(0, "tiny"))


def bound(config: Training, n: int) -> float:
    """Return the bytes that a process sends in a step, at most on average over the choice of owners."""
    row = 4 * (config.dim + (config.subspaces if config.reach else 0))
    own, sampler = config.batch_size / n, config.sampler  # pairs of a process
    items = own + sampler.negatives if sampler.shared else own * (1 + sampler.negatives)
    looks = own + sampler.candidates if isinstance(sampler, TwoStage) else 0
    learned = items if sampler.shared else 2 * own  # of a pair's negatives, the hinge moves the nearest
    sizes = 8 * (n - 1) * (4 if looks else 2)
    return (n - 1) / n * ((items + looks) * (8 + row) + learned * (16 + row)) + sizes


if __name__ == "__main__":
    main()
