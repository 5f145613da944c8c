"""Steps through an epoch. On a GPU, recorded once as a CUDA graph: the host has nothing to do but to say "again"."""

import threading

import torch
from torch import Tensor

from spherec.device import stream_of_thread
from spherec.kernels import cuda
from spherec.training.run import Run

Pairs = tuple[Tensor, Tensor]
"""Users (E,) and items (E,) of all pairs."""

_RECORDING = threading.Lock()
_STEPS_BEFORE = 3  # done as usual, so that all that is set up at first use is set up
_AT_ONCE = 16  # steps in one recording: saying "again" takes the host half as long as a step takes the GPU


def steps(run: Run, pairs: Pairs, batch_size: int) -> "Steps":
    """The steps of this run, as its device likes them."""
    return (GraphedSteps if pairs[0].is_cuda else Steps)(run, pairs, batch_size)


class Steps:
    """Each step is done when it is asked for."""

    def __init__(self, run: Run, pairs: Pairs, batch_size: int) -> None:
        self._run = run
        self._pairs = pairs
        self._batch_size = batch_size

    def begin(self, order: Tensor, first: int) -> None:
        """An epoch: pairs come in this order (E,), those before `first` have been already."""
        self._order, self._first = order, first

    def step(self) -> tuple[int, int]:
        """The next batch or several; gives back how many pairs, and how many places for negatives there were."""
        batch = self._order[self._first : self._first + self._batch_size]  # (B,) the last one may be smaller
        self._first += len(batch)
        users, positives = (one[batch].long() for one in self._pairs)
        return len(batch), self._run.step(users, positives)


class GraphedSteps(Steps):
    """Whole batches are recorded once and then replayed."""

    def __init__(self, run: Run, pairs: Pairs, batch_size: int) -> None:
        super().__init__(run, pairs, batch_size)
        self._done = 0
        self._places = 0
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}  # by how many steps they are
        self._order = torch.zeros(len(pairs[0]), dtype=torch.int64, device=pairs[0].device)
        self._first_there = torch.zeros(1, dtype=torch.int64, device=pairs[0].device)  # `_first`, for the graph
        self._triton = cuda.kernels("batch", pairs[0].device)

    def begin(self, order: Tensor, first: int) -> None:
        """An epoch: pairs come in this order (E,), those before `first` have been already."""
        self._order.copy_(order)  # the graph reads from where it was recorded
        self._first = first
        self._first_there.fill_(first)

    def step(self) -> tuple[int, int]:
        """The next batch or several; gives back how many pairs, and how many places for negatives there were."""
        left = (len(self._order) - self._first) // self._batch_size  # whole batches
        if not left:
            return super().step()
        count = 1
        if self._done < _STEPS_BEFORE:
            self._aside()
        else:
            count = _AT_ONCE if left >= _AT_ONCE else 1
            if count not in self._graphs:
                self._graphs[count] = self._recorded(count)
            self._graphs[count].replay()
        self._done += count
        self._first += count * self._batch_size
        return count * self._batch_size, count * self._places

    def _whole_batch(self) -> None:
        """A step that takes nothing from the host."""
        if self._triton:
            batch: Pairs = self._triton.next_batch(self._pairs, self._order, self._first_there, self._batch_size)
        else:
            at = self._first_there + torch.arange(self._batch_size, device=self._order.device)
            users, positives = (one[self._order[at]].long() for one in self._pairs)
            batch = users, positives
        self._places = self._run.step(*batch)
        self._first_there += self._batch_size

    def _aside(self) -> None:
        """A step on a stream of its own, as recording will be."""
        aside = stream_of_thread("recording")
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            self._whole_batch()
        torch.cuda.current_stream().wait_stream(aside)

    def _recorded(self, count: int) -> torch.cuda.CUDAGraph:
        """So many steps as a graph; recording does not execute them."""
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._run.generator)
        # One at a time, and minding this thread alone: other runs may be busy on the same device.
        aside = stream_of_thread("recording")
        with _RECORDING, torch.cuda.graph(graph, stream=aside, capture_error_mode="thread_local"):
            for _ in range(count):
                self._whole_batch()
        # What recording itself did there, such as setting the generator's place to 0, must be over before "again".
        torch.cuda.current_stream().wait_stream(aside)
        return graph
