"""Training steps timed: those of the trainer and those of the baseline, sampling included in both."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from machine import Machine
from plain import PlainTraining, step_floor
from timing import WorkDone, time_in_turns

from spherec import rng
from spherec.data.events import pair_keys
from spherec.data.ids import IdMap
from spherec.data.interactions import Interactions, row_starts
from spherec.device import measure_peak, threads_for
from spherec.geometry import DenseVectors
from spherec.sampling import Popularity, Sampling, TwoStage, Uniform
from spherec.training import Crew, Training
from spherec.training.step import Run
from spherec.training.trainer import make_batches

MEASURED_SAMPLERS: dict[str, Callable[[int], Sampling]] = {
    "uniform": Uniform,
    "popularity": Popularity,
    "two-stage": TwoStage.tuned,
}
"""Samplers that are measured, made from the number of negatives."""

_SETUP_CALLS = {"cpu": 2, "cuda": 6}  # calls until everything is set up; on a GPU, until the graph is recorded


class TrainerSteps:
    """Steps of the trainer, epoch after epoch; a workload."""

    def __init__(
        self, data: Interactions, config: Training, initial: DenseVectors | None, crew: Crew | None = None
    ) -> None:
        self._config = config
        self._pairs = data.n_pairs
        self._pairs_left = 0  # in this epoch
        self._epoch = 0
        self._run = Run(data, config, initial, crew=crew)
        self._device = self._run.crew.device
        self._walk = make_batches(self._run)

    def __call__(self, calls: int) -> WorkDone:
        """Continue training; on a GPU one call may be sixteen steps."""
        done = units = 0
        with threads_for(self._config.batch_size, self._device):
            for _ in range(calls):
                if not self._pairs_left:
                    self._begin_epoch()
                pairs, places = self._walk.step()
                self._pairs_left -= pairs
                done += -(-pairs // self._config.batch_size)
                units += places
        return WorkDone(done, units)

    def set_up(self) -> None:
        """Make the first steps and touch every row: on a CPU, untouched rows take no memory."""
        self(_SETUP_CALLS[self._device.type])
        for tensor in self._run.embedding.state().values():
            tensor.add_(0)

    def _begin_epoch(self) -> None:
        self._walk.begin(self._epoch, 0)
        self._pairs_left, self._epoch = self._pairs, self._epoch + 1


class BaselineSteps:
    """Steps of the baseline; a workload."""

    def __init__(self, data: Interactions, config: Training, initial: DenseVectors) -> None:
        self._training = PlainTraining(data, config, initial)
        self._negatives = config.sampler.negatives

    def __call__(self, calls: int) -> WorkDone:
        """Continue training."""
        return WorkDone(calls, sum(self._training.step() * self._negatives for _ in range(calls)))


def measure_steps(
    data: Interactions,
    sampler: str,
    config: Training,
    initial: DenseVectors,
    machine: Machine,
    *,
    chunks: int,
    seconds: float,
) -> dict[str, Any]:
    """Time the trainer and the baseline in turns, both from the same initial vectors on their device."""
    device = initial.device
    compile_steps(config, device)
    with measure_peak(device) as peak:
        ours = TrainerSteps(data, config, initial)
        ours.set_up()
    with measure_peak(device) as baseline_peak:
        plain = BaselineSteps(data, config, initial)
        plain(1)
    fast, slow = time_in_turns([ours, plain], chunks, seconds, device)
    floor = step_floor(config)
    return {
        "sampler": sampler,
        "negatives": config.sampler.negatives,
        "batch": config.batch_size,
        "dim": config.dim,
        "floor_mb": floor.mb,
        "floor_gflop": floor.gflop,
        "floor_ms": floor.ms_on(machine),
        "spherec": fast.to_dict("triplets") | {"peak_mb": peak.mb},
        "baseline": slow.to_dict("triplets") | {"peak_mb": baseline_peak.mb},
        "ratio": fast.per_second / slow.per_second,
    }


def compile_steps(config: Training, device: torch.device) -> None:
    """Make a few steps on tiny data, because compilers take memory that is not to be measured."""
    tiny = generate_interactions(20, 200, 400)
    initial = DenseVectors.random(20, 200, config.dim, rng.torch_stream(0, "tiny")).to(device)
    BaselineSteps(tiny, config, initial)(2)
    TrainerSteps(tiny, config, initial)(2)


def generate_interactions(users: int, items: int, pairs: int, *, seed: int = 0) -> Interactions:
    """Generate skewed interactions of the given size without a loop; repeated draws count once, so pairs may be fewer.

    The density of popularity falls as rank^(−1/2), that of users' activity as rank^(−1/3). Popular items have random
    indices, so that their rows do not lie side by side.
    """
    random = rng.stream(seed, "generated")
    popular = random.permutation(items)[(items * random.random(pairs) ** 2).astype(np.int64)]  # (pairs,)
    active = (users * random.random(pairs) ** 1.5).astype(np.int64)  # (pairs,)
    keys = np.sort(pair_keys(active, popular, items))  # (pairs,) by user, then item
    user, item = np.divmod(keys[np.append(True, keys[1:] != keys[:-1])], items)  # (E,)
    return Interactions(
        indptr=row_starts(user.astype(np.int32), users),
        indices=item.astype(np.int32),
        user_ids=IdMap(np.arange(users)),
        item_ids=IdMap(np.arange(items)),
    )
