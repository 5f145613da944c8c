"""A step on a GPU without the cost of launching its hundreds of small kernels one by one: a CUDA graph."""

import threading

import torch
from torch import Tensor

from spherec.training.run import Run

_RECORDING = threading.Lock()
_STEPS_BEFORE = 3  # done as usual, so that all that is set up at first use is set up


class GraphedStep:
    """Does what `run.step` does. Batches of the size of the first are recorded once and then replayed."""

    def __init__(self, run: Run, batch_size: int) -> None:
        self._run = run
        self._batch_size = batch_size
        self._done = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._places = 0
        device = run.rows.table.device
        self._users = torch.zeros(batch_size, dtype=torch.int64, device=device)
        self._positives = torch.zeros(batch_size, dtype=torch.int64, device=device)

    def __call__(self, users: Tensor, positives: Tensor) -> int:
        """A step; gives back how many places for negatives there were."""
        if len(users) != self._batch_size:
            return self._run.step(users, positives)
        self._done += 1
        if self._done <= _STEPS_BEFORE:
            return self._aside(users, positives)
        self._users.copy_(users)
        self._positives.copy_(positives)
        if self._graph is None:
            self._graph = self._recorded()
        self._graph.replay()
        return self._places

    def _aside(self, users: Tensor, positives: Tensor) -> int:
        """A step on a stream of its own, as recording will be."""
        aside: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            places = self._run.step(users, positives)
        torch.cuda.current_stream().wait_stream(aside)
        return places

    def _recorded(self) -> torch.cuda.CUDAGraph:
        """The step as a graph; recording does not execute it."""
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._run.generator)
        # One at a time, and minding this thread alone: other runs may be busy on the same device.
        with _RECORDING, torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self._places = self._run.step(self._users, self._positives)
        return graph
