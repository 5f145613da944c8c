"""Training steps: ours as the trainer does them, and the baseline's, sampling included in both."""

from collections.abc import Callable

import torch

from spherec import rng
from spherec.bench.baseline import PlainTraining
from spherec.bench.floor import floor_of, least_ms
from spherec.bench.generated import generated
from spherec.bench.interleaved import Done, interleaved
from spherec.bench.machine import Machine
from spherec.bench.record import Comparison, StepResult
from spherec.data.interactions import Interactions
from spherec.device import threads_for
from spherec.geometry import DenseVectors
from spherec.memory import watched
from spherec.sampling import Popularity, Sampling, TwoStage, Uniform
from spherec.training import Training
from spherec.training.step import Run
from spherec.training.trainer import make_batches

SAMPLERS: dict[str, Callable[[int], Sampling]] = {
    "uniform": Uniform,
    "popularity": Popularity,
    "two-stage": TwoStage.tuned,
}
"""Made with the number of negatives."""

_FIRST_CALLS = {"cpu": 2, "cuda": 6}  # after them everything is set up; on a GPU, recorded


class Steps:
    """Our steps, one epoch after the other; a contender."""

    def __init__(self, data: Interactions, config: Training, initial: DenseVectors) -> None:
        self._device = initial.user_table.device
        self._config = config
        self._pairs = len(data)
        self._left = 0  # pairs of this epoch
        self._epoch = 0
        self._run = Run(data, config, initial)
        self._walk = make_batches(self._run, data, self._device)

    def __call__(self, calls: int) -> Done:
        """Go on; on a GPU one call may be sixteen steps."""
        done = units = 0
        with threads_for(self._config.batch_size, self._device):
            for _ in range(calls):
                if not self._left:
                    self._begin()
                pairs, places = self._walk.step()
                self._left -= pairs
                done += -(-pairs // self._config.batch_size)
                units += places
        return Done(done, units)

    def set_up(self) -> None:
        """The first steps, and every row touched: rows that no step has met yet take no memory on a CPU."""
        self(_FIRST_CALLS[self._device.type])
        for one in self._run.embedding.state().values():
            one.add_(0)

    def _begin(self) -> None:
        generator = rng.torch_stream(self._config.seed, "shuffle", self._epoch, device=self._device)
        self._walk.begin(rng.permutation(self._pairs, generator), 0)
        self._left, self._epoch = self._pairs, self._epoch + 1


class PlainSteps:
    """The baseline's steps; a contender."""

    def __init__(self, data: Interactions, config: Training, initial: DenseVectors) -> None:
        self._training = PlainTraining(data, config, initial)
        self._negatives = config.sampler.negatives

    def __call__(self, calls: int) -> Done:
        """Go on."""
        return Done(calls, sum(self._training.step() * self._negatives for _ in range(calls)))


def measure_steps(
    data: Interactions,
    sampler: str,
    config: Training,
    initial: DenseVectors,
    machine: Machine,
    *,
    chunks: int,
    seconds: float,
) -> StepResult:
    """Ours beside the baseline, from the same initial rows on their device."""
    device = initial.user_table.device
    compile_steps(config, device)
    with watched(device) as taken:
        ours = Steps(data, config, initial)
        ours.set_up()
    with watched(device) as taken_by_baseline:
        plain = PlainSteps(data, config, initial)
        plain(1)
    speeds = interleaved([ours, plain], chunks, seconds, device)
    floor = floor_of(config)
    return StepResult(
        sampler=sampler,
        negatives=config.sampler.negatives,
        batch=config.batch_size,
        dim=config.dim,
        speed=Comparison("triplets", *speeds),
        peak_mb=taken.mb,
        baseline_peak_mb=taken_by_baseline.mb,
        floor_mb=floor.mb,
        floor_gflop=floor.gflop,
        floor_ms=least_ms(floor, machine),
    )


def compile_steps(config: Training, device: torch.device) -> None:
    """A few steps on next to nothing: compilers take memory, too, which is not what is to be measured."""
    tiny = generated(20, 200, 400)
    initial = DenseVectors.random(20, 200, config.dim, rng.torch_stream(0, "tiny")).to(device)
    PlainSteps(tiny, config, initial)(2)
    Steps(tiny, config, initial)(2)
