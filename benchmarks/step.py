"""Time a training step on one thread of a CPU, on Book-Crossing with the paper's loss and dimensions.

    python benchmarks/step.py [--steps 200] [--batches 256 4096]

Prints the median over the steps, and the triplets per second (batch times negatives). Times are processor times, so
that other processes disturb little. The first steps, which compile and touch memory for the first time, do not count.
"""

import argparse
import statistics
import time

import torch

from spherec import datasets, rng
from spherec.data.interactions import Interactions
from spherec.geometry import DenseVectors
from spherec.sampling import Popularity, Sampling, TwoStage, Uniform
from spherec.training import Training
from spherec.training.step import Run

SAMPLERS: dict[str, tuple[Sampling, ...]] = {
    "uniform": (Uniform(1), Uniform(5)),
    "popularity": (Popularity(1), Popularity(5)),
    "two-stage": (TwoStage.tuned(1), TwoStage.tuned(5)),
}


def time_steps(steps: int, data: Interactions, config: Training) -> list[float]:
    """Return the seconds of each step, after as many steps that do not count."""
    generator = rng.torch_stream(config.seed, "initial vectors")
    run = Run(data, config, DenseVectors.random(data.n_users, data.n_items, config.dim, generator))
    pairs = [torch.tensor(column) for column in (data.users, data.indices)]  # (E,), (E,)
    shuffle, seconds = rng.torch_stream(config.seed, "shuffle", 0), []
    for _ in range(2 * steps):
        batch = torch.empty(config.batch_size).uniform_(0, len(data) - 1, generator=shuffle).long()  # (B,)
        began = time.thread_time()
        run.step(*(column[batch].long() for column in pairs))
        seconds.append(time.thread_time() - began)
    return seconds[steps:]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batches", type=int, nargs="+", default=[256, 4096])
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = datasets.book_crossing()
    print(f"{'sampler':<12}{'N':>3}{'batch':>7}{'ms per step':>12}{'triplets/s':>14}")
    for size in options.batches:
        for name, configs in SAMPLERS.items():
            for sampler in configs:
                took = statistics.median(time_steps(options.steps, data, Training(sampler=sampler, batch_size=size)))
                rate = size * sampler.negatives / took
                print(f"{name:<12}{sampler.negatives:>3}{size:>7}{1000 * took:>12.2f}{rate:>14,.0f}", flush=True)


if __name__ == "__main__":
    main()
