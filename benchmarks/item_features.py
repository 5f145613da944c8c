"""Measure models with item features: their lists on new items of citeulike-t, the cost of a step, of adding items.

    python benchmarks/item_features.py prepare FOLDER content.npz
    python benchmarks/item_features.py quality content.npz -o results.jsonl [--device cuda] [--only words]
    python benchmarks/item_features.py step content.npz [--device cpu] [--steps 40]
    python benchmarks/item_features.py add [--items 10000]

FOLDER has users.dat, mult.dat and tag-item.dat, plain or gzipped. `prepare` reads them: users with at least 10
articles, 300 numbers for words and 300 for tags, rounded to 16 bits. `quality` holds out 20 % of the articles as cold
and 20 % of each user's others, for the seeds 0, 1 and 2 of the split, trains with words, tags, both and neither, and
with other shares of dropped rows, and writes a line of JSON for each run. `step` times steps with 600 features and
without, by turns. `add` times `add_items`.
"""

import argparse
import gzip
import json
import multiprocessing
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from spherec import CML, Features, Interactions, rng, splits
from spherec.data.ids import IdMap
from spherec.device import threads_for
from spherec.evaluation import evaluate_cold
from spherec.geometry import DenseVectors
from spherec.training import Run, join, train
from spherec.training.config import PRESETS
from spherec.training.trainer import make_batches

SOURCES = {"neither": (), "words": ("words",), "tags": ("tags",), "words and tags": ("words", "tags")}
DROPOUTS = (0.0, 0.25, 0.75)  # next to 0.5, the default
CASES = {"accurate": {}, "accurate, dim 256": {"dim": 256}, "two-stage": {}}


def prepare(folder: Path, output: Path) -> None:
    """Write interactions and features as one file."""
    from spherec import Cut, read  # reading needs polars

    users, words, tags = (next(folder.glob(f"{name}.dat*")) for name in ("users", "mult", "tag-item"))
    data = read(users, cut=Cut(min_per_user=10))
    arrays: dict[str, Any] = {"indptr": data.indptr, "indices": data.indices}
    for name, matrix in (("words", read_lists(words)), ("tags", read_lists(tags).T)):
        features = Features.from_matrix(matrix, map(str, range(matrix.shape[0]))).align(data.item_ids)
        arrays |= {name: features.matrix.astype(np.float16), f"{name}_known": features.known}
    np.savez(output, **arrays)
    print(data)


def read_lists(path: Path) -> Any:
    """Return the entries `number` or `number:count` of each line as a sparse matrix."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lines = [line.split()[1:] for line in text.decode().splitlines()]
    entries: list[Any] = [(row, *entry.split(":")) for row, line in enumerate(lines) for entry in line]
    rows, columns, counts = zip(
        *((row, int(column), int(*count or [1])) for row, column, *count in entries), strict=True
    )
    return sp.csr_array((counts, (rows, columns)))


def load(path: Path) -> tuple[Interactions, dict[str, np.ndarray]]:
    """Return interactions, and features by their names."""
    with np.load(path) as file:
        arrays = dict(file)
    n_users, n_items = len(arrays["indptr"]) - 1, len(arrays["words"])
    ids = IdMap(np.arange(n_users)), IdMap(np.arange(n_items))
    data = Interactions(arrays["indptr"], arrays["indices"], *ids)
    contents = {}
    for name in ("words", "tags"):
        contents[name] = arrays[name].astype(np.float32)
        contents[name][~arrays[f"{name}_known"]] = np.nan
    return data, contents


def run_jobs(path: Path, output: Path, jobs: Any, lock: Any, device: str, changes: dict[str, Any]) -> None:
    """Train and score what the queue holds."""
    torch.set_num_threads(1)
    data, contents = load(path)
    while (job := jobs.get()) is not None:
        fold = splits.cold_items(data, share=0.2, test=0.2, seed=job["seed"])
        parts = [Features.from_matrix(contents[name], data.item_ids, name=name) for name in SOURCES[job["features"]]]
        features = Features.join(*parts).align(fold.train.item_ids) if parts else None
        config = PRESETS["accurate"].training.change({**changes, "feature_dropout": job["dropout"]})
        began = time.perf_counter()
        trained = train(Run(fold.train, config, features=features, crew=join(torch.device(device))))
        seconds = time.perf_counter() - began
        scores = evaluate_cold(trained.vectors, fold, k=50, metrics=["recall", "ndcg"])
        parts_scored = {"cold": scores.cold, "warm": scores.warm, "all": scores.all}
        figures = {name: {"recall": part.recall, "ndcg": part.ndcg} for name, part in parts_scored.items()}
        with lock, output.open("a") as file:
            file.write(json.dumps({**job, **changes, "device": device, "seconds": seconds, **figures}) + "\n")
        print(
            job, {name: f"{100 * v['recall']:.2f} / {100 * v['ndcg']:.2f}" for name, v in figures.items()}, flush=True
        )


def measure_quality(
    path: Path, output: Path, device: str, processes: int, dim: int, seeds: list[int], only: str | None
) -> None:
    """Train all models of both tables, or those with `only` these features, several at once."""
    jobs = [{"features": name, "dropout": 0.5, "seed": seed} for name in SOURCES for seed in seeds]
    jobs += [{"features": "words and tags", "dropout": share, "seed": seed} for share in DROPOUTS for seed in seeds]
    jobs = [job for job in jobs if only is None or (job["features"], job["dropout"]) == (only, 0.5)]
    context = multiprocessing.get_context("spawn")
    queue, lock = context.Queue(), context.Lock()
    for job in [*jobs, *[None] * processes]:
        queue.put(job)
    given = (path, output, queue, lock, device, {"dim": dim})
    workers = [context.Process(target=run_jobs, args=given) for _ in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def measure_steps(path: Path, device: torch.device, steps: int, rounds: int) -> None:
    """Print the milliseconds of a step without features and with 600, by turns, in one process."""
    data, _ = load(path)
    generator = rng.stream(0, "features")
    matrix = generator.standard_normal((data.n_items, 600), dtype=np.float32) / 600**0.5
    features = Features.from_matrix(matrix, data.item_ids)
    for name, changes in CASES.items():
        config = PRESETS[name.partition(",")[0]].training.change(changes).resolve(data)
        first = DenseVectors.random(data.n_users, data.n_items, config.dim, rng.torch_stream(0, "initial vectors"))
        kinds = {"without": None, "with": features}
        runs = {
            kind: make_batches(Run(data, config, first, given, crew=join(torch.device(device))))
            for kind, given in kinds.items()
        }
        seconds: dict[str, list[float]] = {kind: [] for kind in runs}
        with threads_for(config.batch_size, device):
            for number in range(rounds + 1):  # the first compiles
                for kind, batches in runs.items():
                    batches.begin(number, 0)
                    synchronize(device)
                    began, pairs = time.perf_counter(), 0
                    while pairs < min(steps * config.batch_size, len(data) - config.batch_size):
                        pairs += batches.step()[0]
                    synchronize(device)
                    seconds[kind].append((time.perf_counter() - began) / pairs * config.batch_size)
        without, with_ = (1000 * statistics.median(seconds[kind][1:]) for kind in runs)
        print(f"{name}: {without:.3f} ms without, {with_:.3f} ms with, {with_ / without:.2f} times", flush=True)


def synchronize(device: torch.device) -> None:
    """Wait for a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def measure_adding(n_items: int) -> None:
    """Print the seconds that adding items to a model of 100,000 items takes: with vectors, and with texts."""
    import polars as pl

    random = rng.stream(0, "features")
    known, words = 100_000, np.array([f"word{number}" for number in range(20_000)])
    users, items = random.integers(0, 2000, 200_000), random.integers(0, known, 200_000)
    everyone = np.concatenate((users, np.arange(known) % 2000)), np.concatenate((items, np.arange(known)))
    data = Interactions.from_pairs(*everyone, duplicates="sum")
    texts = [" ".join(row) for row in words[random.integers(0, len(words), (known + n_items, 10)) ** 2 // len(words)]]
    table = pl.DataFrame({"item": np.arange(known + n_items), "text": texts})
    vectors = random.standard_normal((known + n_items, 600), dtype=np.float32)
    for name, features, new in (
        ("vectors of 600 numbers", Features.from_matrix(vectors[:known]), (vectors[known:],)),
        (
            "texts of 10 words",
            Features.from_frame(table[:known], item="item", kinds={"text": "text"}),
            (table[known:],),
        ),
    ):
        model = CML.preset("accurate", dim=256, epochs=1, device="cpu").fit(data, item_features=features)
        ids = range(known, known + n_items) if name.startswith("vectors") else None
        began = time.perf_counter()
        model.add_items(*new, item_ids=ids)
        print(f"{name}: {n_items:,} items added to {known:,} in {time.perf_counter() - began:.2f} s", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    preparing = commands.add_parser("prepare")
    preparing.add_argument("folder", type=Path)
    preparing.add_argument("output", type=Path)
    quality, step = commands.add_parser("quality"), commands.add_parser("step")
    for each in (quality, step):
        each.add_argument("content", type=Path)
        each.add_argument("--device", default="cpu")
    quality.add_argument("-o", "--output", type=Path, required=True)
    quality.add_argument("--processes", type=int, default=1)
    quality.add_argument("--dim", type=int, default=256)
    quality.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    quality.add_argument("--only", choices=SOURCES, help="these features, with the default dropout")
    step.add_argument("--steps", type=int, default=40)
    step.add_argument("--rounds", type=int, default=5)
    commands.add_parser("add").add_argument("--items", type=int, default=10_000)
    options = parser.parse_args()
    match options.command:
        case "prepare":
            prepare(options.folder, options.output)
        case "quality":
            chosen = options.processes, options.dim, options.seeds, options.only
            measure_quality(options.content, options.output, options.device, *chosen)
        case "step":
            measure_steps(options.content, torch.device(options.device), options.steps, options.rounds)
        case "add":
            measure_adding(options.items)


if __name__ == "__main__":
    main()
