"""Processes that train one model together: they are started by torchrun, and talk through `torch.distributed`.

Every method of a group is called by all its processes, in the same order. Where one of them is gone, the others get a
`LostProcessError` instead of an answer.
"""

import atexit
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed

from spherec.errors import ArgumentError, LostProcessError

_SECONDS_TO_REPORT = 5
_BACKENDS = {"cuda": "nccl", "cpu": "gloo"}
# Process 0 may write a model for long while the others wait. gloo notices at once if a process is gone.
_LONGEST_WAITS = {"nccl": timedelta(hours=6), "gloo": timedelta(days=1)}
# There is no error type for it, only these messages of gloo's and NCCL's transport.
_LOSS = re.compile(
    r"[Cc]onnection (closed|reset|refused)|[Bb]roken pipe|[Tt]imed out|[Tt]imeout|[Ss]ocket|ncclRemoteError"
)


class ProcessGroup:
    """The processes of a run, numbered by their rank from 0 on; by default this one alone."""

    def __init__(self, device: torch.device, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size
        self.sent_bytes = 0
        "Bytes that this process has sent to others so far."
        self.device = device
        "Device of the tensors that are sent."

    def exchange(self, rows: Tensor, counts: Sequence[int], sizes: Sequence[int]) -> Tensor:
        """Send the first counts[0] rows to process 0, the next counts[1] to process 1 …; return what they send.

        `sizes` tells how many rows come from each process.
        """
        arrived = rows.new_empty(sum(sizes), *rows.shape[1:])
        others = sum(counts) - counts[self.rank]
        self.sent_bytes += others * rows[:1].numel() * rows.element_size() if len(rows) else 0
        self._run(distributed.all_to_all_single, arrived, rows.contiguous(), list(sizes), list(counts))
        return arrived

    def exchange_sizes(self, counts: Sequence[int]) -> list[int]:
        """Tell each process how many rows it will get; return how many come from each."""
        sizes = self.exchange(torch.tensor(counts, device=self.device), [1] * self.size, [1] * self.size)
        return [int(size) for size in sizes.tolist()]

    def agree(self, *flags: bool) -> list[bool]:
        """Return for each flag whether it is set in any process."""
        if self.size == 1:
            return list(flags)
        raised = torch.tensor(flags, dtype=torch.int32, device=self.device)
        self._run(distributed.all_reduce, raised, distributed.ReduceOp.MAX)
        return [bool(flag) for flag in raised.tolist()]

    def add_up(self, numbers: Tensor) -> Tensor:
        """Return the sum of the tensors that the processes give."""
        total = numbers.clone()
        if self.size > 1:
            self._run(distributed.all_reduce, total)
        return total

    def collect(self, rows: Tensor, *, everywhere: bool) -> list[Tensor]:
        """Return the rows of all processes, which are of one shape; unless `everywhere`, in process 0 alone."""
        if self.size == 1:
            return [rows]
        rows = rows.contiguous()
        everything = [torch.empty_like(rows) for _ in range(self.size)] if everywhere or self.rank == 0 else []
        if everywhere:
            self._run(distributed.all_gather, everything, rows)
        else:
            self._run(distributed.gather, rows, everything or None)
        return everything

    def collect_objects(self, thing: Any) -> list[Any]:
        """Return what the processes give, in all of them; it goes through pickle."""
        everything = [thing] * self.size
        if self.size > 1:
            with _noticing_losses():
                distributed.all_gather_object(everything, thing)
        return everything

    def _run(self, operation: Callable[..., distributed.Work], *given: Any) -> None:
        """Run an operation of `torch.distributed` to its end.

        NCCL works in the background. Whoever waits for the GPU meanwhile waits forever if another process is gone, and
        does not hear signals. An operation that is asked whether it is done tells of the error.
        """
        with _noticing_losses():
            if self.device.type != "cuda":
                operation(*given)
                return
            try:
                work = operation(*given, async_op=True)
                last = time.monotonic() + _LONGEST_WAITS["nccl"].total_seconds()
                while not work.is_completed():
                    if time.monotonic() > last:
                        raise RuntimeError("timed out")
                work.wait()  # from here on, the GPU computes with what has arrived
            except RuntimeError:
                _give_up_nccl()
                raise


def is_started_by_torchrun() -> bool:
    """Tell whether torchrun has started this process."""
    return distributed.is_available() and distributed.is_torchelastic_launched()


def is_restarted() -> bool:
    """Tell whether torchrun has started the processes again after one of them was lost."""
    return is_started_by_torchrun() and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"


def join_group(device: torch.device) -> ProcessGroup:
    """Return the group that this process belongs to; one of its own if it trains alone.

    The group is the one that the caller has made with `torch.distributed`, or that of torchrun: gloo for CPUs, NCCL for
    GPUs, each process with the GPU of its number on this machine.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        if not is_started_by_torchrun():
            return ProcessGroup(device)
        if device.type == "cuda":
            _choose_gpu()  # raises an error before processes wait for each other
        _join_torchrun(_BACKENDS[device.type])
        atexit.register(_leave)
    if device.type == "cuda":
        torch.cuda.set_device(_choose_gpu())
    backends, needed = distributed.get_backend_config(), f"{device.type}:{_BACKENDS[device.type]}"
    if needed not in backends.split(","):
        raise ArgumentError(f"the process group has the backends {backends}, but this device needs {needed}")
    return ProcessGroup(device, distributed.get_rank(), distributed.get_world_size())


def _choose_gpu() -> int:
    """Return the GPU of this process: under torchrun the one of its number on this machine."""
    if "LOCAL_RANK" not in os.environ:
        return torch.cuda.current_device()
    number, count = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if number >= count:
        raise ArgumentError(
            f"torchrun started {os.environ['LOCAL_WORLD_SIZE']} processes on this machine, which has {count} GPUs; "
            f"start one for each (--nproc-per-node {count}), or use device 'cpu'"
        )
    return number


def _join_torchrun(backend: str) -> None:
    """Make the group of the processes that torchrun has started."""
    if backend == "nccl":  # by default it ends this process when another is gone, with pages of messages
        os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
        os.environ.setdefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "0")
    with _noticing_losses():
        store, rank, size = next(distributed.rendezvous("env://"))  # type: ignore[attr-defined]
        # After a restart the store may be the same, with the addresses of processes that are gone.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT")
        store = distributed.PrefixStore(f"start {attempt}", store)  # type: ignore[attr-defined]
        first = store.compare_set("backend", "", backend).decode()
        if first != backend:
            raise ArgumentError(
                f"this process would talk with {backend}, and another one with {first}; see that all machines find "
                "their GPUs, or give all processes the device 'cpu'"
            )
        distributed.init_process_group(
            backend, store=store, rank=rank, world_size=size, timeout=_LONGEST_WAITS[backend]
        )


def is_first_to_fail() -> bool:
    """Tell whether no other process has failed before, so that one message is printed and not one from each."""
    if not is_started_by_torchrun():
        return True
    with suppress(Exception):  # the store of torchrun is gone, or far too slow: print
        store = distributed.TCPStore(  # type: ignore[attr-defined]
            os.environ["MASTER_ADDR"],
            int(os.environ["MASTER_PORT"]),
            is_master=False,
            timeout=timedelta(seconds=_SECONDS_TO_REPORT),
        )
        return store.add(f"spherec failed {os.environ.get('TORCHELASTIC_RESTART_COUNT')}", 1) == 1
    return True


def _leave() -> None:
    with suppress(Exception):  # others may be gone
        distributed.destroy_process_group()


def _give_up_nccl() -> None:
    """Free the GPU of messages that will never arrive, and let this process end without waiting for them."""
    if (group := distributed.group.WORLD) is not None:
        group.abort()
    if is_started_by_torchrun():
        atexit.unregister(_leave)
        atexit.unregister(_end_at_once)
        atexit.register(_end_at_once)


def _end_at_once() -> None:
    """End this process without its other threads: those of NCCL wait for the process that is gone."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


@contextmanager
def _noticing_losses() -> Iterator[None]:
    """Raise a `LostProcessError` if the block fails because another process is gone or cannot be reached."""
    try:
        yield
    except RuntimeError as error:
        again = "start the run again, with --resume if there is a checkpoint"
        if _LOSS.search(str(error)):
            raise LostProcessError(f"a process of this run has ended before the others; {again}") from error
        if isinstance(error, distributed.DistError):
            reason = str(error).strip().rpartition("\n")[2]  # after NCCL's version and the place in its code
            raise LostProcessError(
                f"the processes of this run cannot reach each other: {reason}; NCCL_DEBUG=WARN tells more, then {again}"
            ) from error
        raise
