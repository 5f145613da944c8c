"""Time a softmin step of `accurate` and `fast` on a CPU, in one thread and in several, on Book-Crossing.

    python benchmarks/threads.py [--threads 2] [--turns 7] [--record FILE.json]

The contenders take turns, so other load on the machine meets all of them alike; nothing else should be running all the
same. Prints the median milliseconds of a step by the clock, how much sooner several threads are done, and the speed of
the three products of a step as a share of the fastest product of large matrices in as many threads, with factors of
the same type.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from steps import TrainerSteps

from spherec import datasets, rng
from spherec.device import run_at_once, threads_for
from spherec.geometry import DenseVectors
from spherec.kernels.cpu.compiled import choose_factors
from spherec.training.config import PRESETS

CPU = torch.device("cpu")
SIDE, PRODUCTS = 2048, 4  # of the matrices, in a turn
STEPS = {"accurate": 4, "fast": 40}  # in a turn


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--record", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    counts = (1, options.threads)
    seconds: dict[tuple[str, int], list[float]] = {}
    contenders = {"peak": multiply, **{name: make_steps(name) for name in STEPS}}
    for turn in range(options.turns + 1):
        for name, contender in contenders.items():
            for count in counts:
                torch.set_num_threads(count)
                began = time.perf_counter()
                contender(count)
                if turn:  # the first compiles, and touches memory for the first time
                    seconds.setdefault((name, count), []).append(time.perf_counter() - began)
    peak = {count: count * PRODUCTS * 2 * SIDE**3 / statistics.median(seconds["peak", count]) for count in counts}
    print(f"products of large matrices: {', '.join(f'{peak[n] / 1e9:.0f} GFLOP/s in {n}' for n in counts)} thread(s)")
    print(f"{'preset':<10}{'threads':>8}{'ms per step':>13}{'GFLOP/s':>9}{'of peak':>9}{'sooner':>8}")
    figures = []
    for name, steps in STEPS.items():
        one = statistics.median(seconds[name, 1]) / steps
        for count in counts:
            step = statistics.median(seconds[name, count]) / steps
            rate = count_operations(name) / step
            print(
                f"{name:<10}{count:>8}{1e3 * step:>13.2f}{rate / 1e9:>9.0f}{rate / peak[count]:>9.0%}{one / step:>8.2f}"
            )
            figures.append({"preset": name, "threads": count, "ms": 1e3 * step, "of_peak": rate / peak[count]})
    if options.record:
        record = {"command": " ".join(["python", *sys.argv]), "peak": peak, "figures": figures}
        options.record.write_text(json.dumps(record, indent=1) + "\n")


def multiply(threads: int) -> None:
    """Multiply large matrices in each of the threads."""
    matrix = torch.ones(SIDE, SIDE, dtype=choose_factors(SIDE**3))

    def repeat() -> None:
        for _ in range(PRODUCTS):
            torch.mm(matrix, matrix)

    with threads_for(1, CPU):
        run_at_once([repeat] * threads)


def make_steps(name: str) -> Callable[[int], None]:
    """Return a function that makes some steps of a preset."""
    data, config = datasets.book_crossing(), PRESETS[name].training
    initial = DenseVectors.random(data.n_users, data.n_items, config.dim, rng.torch_stream(0, "initial vectors"))
    steps = TrainerSteps(data, config.resolve(data), initial)
    return partial(_step, steps, STEPS[name])


def _step(steps: TrainerSteps, calls: int, threads: int) -> None:
    del threads  # torch knows
    steps(calls)


def count_operations(name: str) -> int:
    """Return the floating-point operations of the three products of a step."""
    config = PRESETS[name].training
    return 3 * 2 * config.batch_size * config.sampler.negatives * config.dim


if __name__ == "__main__":
    main()
