"""Steps recorded as CUDA graphs: a step is dozens of short kernels, and a replay starts them all with one call."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from spherec.device import stream_of_thread
from spherec.kernels import backend
from spherec.training.step import Batches, Pairs, Run

_RECORDING = threading.Lock()
_STEPS_BEFORE = 3  # made as usual, so that everything that is set up at first use is set up
_DRAWING = "drawing one", "drawing the next"  # streams
_AT_ONCE = 16  # steps in one recording: a replay takes the host half as long as a step takes the GPU


class GraphedBatches(Batches):
    """Batches whose steps are recorded once as a CUDA graph, and then replayed; the last, smaller one is not."""

    def __init__(self, run: Run, pairs: Pairs) -> None:
        super().__init__(run, pairs)
        self._done = 0
        self._places = 0
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}  # by their number of steps
        self._turn = 0  # number of the stream that draws
        self._drawn = torch.cuda.Event()  # type: ignore[no-untyped-call]  # the last batch is drawn
        self._learned = [self._drawn, self._drawn]  # by stream: its last batch is learned
        self._order = torch.zeros(len(pairs[0]), dtype=torch.int64, device=pairs[0].device)
        self._first_on_device = torch.zeros(1, dtype=torch.int64, device=pairs[0].device)  # `_first`, for the graph
        self._kernels = backend(pairs[0].device)

    def begin(self, epoch: int, first: int) -> None:
        """Begin an epoch, counted from 0: pairs come in random order, and `first` of them are done already."""
        self._order.copy_(
            self._shuffle(len(self._order), epoch)
        )  # the graph reads from the memory with which it was recorded
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

    def _whole_batch(self) -> Tensor:
        """Make a step that takes nothing from the host; return what must be kept until the streams join.

        Batches are drawn on streams of their own, while the rows of earlier ones move. When a sampler looks at vectors,
        the rest of its work is done where rows move: on the stream that this is called on. Sums are added up on one
        more stream.
        """
        learning, adding = torch.cuda.current_stream(), stream_of_thread("adding")
        self._turn = 1 - self._turn
        drawing = stream_of_thread(_DRAWING[self._turn])
        # A sampler's scratch is for one batch at a time. The memory of the batch before last is used again.
        drawing.wait_event(self._drawn)
        drawing.wait_event(self._learned[self._turn])
        if self._run.has_own_sampler:  # it may remember what it computed from vectors
            drawing.wait_stream(learning)

        def stop_drawing() -> None:
            learning.wait_stream(drawing)
            torch.cuda.set_stream(learning)

        with torch.cuda.stream(drawing):
            pairs = self._kernels.next_batch(self._pairs, self._order, self._first_on_device, self._batch_size)
            self._first_on_device += self._batch_size
            batch = self._run.draw(*pairs, before_reading=stop_drawing)
        self._drawn = drawing.record_event()
        learning.wait_event(self._drawn)
        sums = self._run.learn(batch)
        self._learned[self._turn] = learning.record_event()
        adding.wait_event(self._learned[self._turn])
        with torch.cuda.stream(adding):
            self._run.add_sums(sums)
        self._places = batch.negatives.valid.numel()
        return sums

    @contextmanager
    def _beside(self) -> Iterator[None]:
        """Let the other streams begin where this one is, and join it at the end."""
        here, streams = torch.cuda.current_stream(), [stream_of_thread(name) for name in ("adding", *_DRAWING)]
        begun = here.record_event()
        self._turn, self._drawn, self._learned = 0, begun, [begun, begun]
        for stream in streams:
            stream.wait_event(begun)
        yield
        for stream in streams:
            here.wait_stream(stream)

    def _step_aside(self) -> None:
        """Make a step on streams of its own, as recording will."""
        aside = stream_of_thread("recording")
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside), self._beside():
            kept = self._whole_batch()
        torch.cuda.current_stream().wait_stream(aside)
        del kept

    def _record(self, count: int) -> torch.cuda.CUDAGraph:
        """Record this many steps as a graph; recording does not execute them."""
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._run.generator)
        # One recording at a time, of this thread alone: other runs may be busy on the same device.
        aside = stream_of_thread("recording")
        with (
            _RECORDING,
            torch.cuda.graph(graph, stream=aside, capture_error_mode="thread_local"),
            self._beside(),
        ):
            kept = [self._whole_batch() for _ in range(count)]
        # Recording itself works on that stream, e.g. resets the generator's place; it must be over before a replay.
        torch.cuda.current_stream().wait_stream(aside)
        del kept
        return graph
