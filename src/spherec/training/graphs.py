"""Steps recorded as CUDA graphs: a step is dozens of short kernels, and a replay starts them all with one call."""

import threading

import torch
from torch import Tensor

from spherec.device import stream_of_thread
from spherec.kernels import backend
from spherec.training.step import Batches, Pairs, Run

_RECORDING = threading.Lock()
_STEPS_BEFORE = 3  # made as usual, so that everything that is set up at first use is set up
_AT_ONCE = 16  # steps in one recording: a replay takes the host half as long as a step takes the GPU


class GraphedBatches(Batches):
    """Batches whose steps are recorded once as a CUDA graph, and then replayed; the last, smaller one is not."""

    def __init__(self, run: Run, pairs: Pairs, batch_size: int) -> None:
        super().__init__(run, pairs, batch_size)
        self._done = 0
        self._places = 0
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}  # by their number of steps
        self._order = torch.zeros(len(pairs[0]), dtype=torch.int64, device=pairs[0].device)
        self._first_on_device = torch.zeros(1, dtype=torch.int64, device=pairs[0].device)  # `_first`, for the graph
        self._kernels = backend(pairs[0].device)

    def begin(self, order: Tensor, first: int) -> None:
        """Begin an epoch: pairs come in this order (E,), those before `first` are done already."""
        self._order.copy_(order)  # the graph reads from the memory with which it was recorded
        self._first = first
        self._first_on_device.fill_(first)

    def step(self) -> tuple[int, int]:
        """Learn from the next batch or several; return the number of pairs and of places for negatives."""
        left = (len(self._order) - self._first) // self._batch_size  # whole batches
        if not left:
            return super().step()
        count = 1
        if self._done < _STEPS_BEFORE:
            self._step_aside()
        else:
            count = _AT_ONCE if left >= _AT_ONCE else 1
            if count not in self._graphs:
                self._graphs[count] = self._record(count)
            self._graphs[count].replay()
        self._done += count
        self._first += count * self._batch_size
        return count * self._batch_size, count * self._places

    def _whole_batch(self) -> None:
        """Make a step that takes nothing from the host."""
        batch = self._kernels.next_batch(self._pairs, self._order, self._first_on_device, self._batch_size)
        self._places = self._run.step(*batch)
        self._first_on_device += self._batch_size

    def _step_aside(self) -> None:
        """Make a step on a stream of its own, as recording will."""
        aside = stream_of_thread("recording")
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            self._whole_batch()
        torch.cuda.current_stream().wait_stream(aside)

    def _record(self, count: int) -> torch.cuda.CUDAGraph:
        """Record this many steps as a graph; recording does not execute them."""
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._run.generator)
        # One recording at a time, of this thread alone: other runs may be busy on the same device.
        aside = stream_of_thread("recording")
        with _RECORDING, torch.cuda.graph(graph, stream=aside, capture_error_mode="thread_local"):
            for _ in range(count):
                self._whole_batch()
        # Recording itself works on that stream, e.g. resets the generator's place; it must be over before a replay.
        torch.cuda.current_stream().wait_stream(aside)
        return graph
