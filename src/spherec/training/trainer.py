"""The training loop: epochs of steps, with validation, early stopping and checkpoints around them."""

import json
import math
import re
import signal
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from types import FrameType
from typing import Any, Literal

import torch

from spherec import rng
from spherec.data.features import Features
from spherec.data.interactions import Interactions
from spherec.data.output_files import lock_output, refuse_unwritable
from spherec.device import DeviceName, records_graphs, resolve, threads_for
from spherec.distributed.batches import (
    PartitionedBatches,
    SharedBatches,
    draw_held,
    gather_vectors,
    hold_vectors,
    take_share,
)
from spherec.distributed.checkpoint import CheckpointSet
from spherec.distributed.group import ProcessGroup, is_first_process, join_group
from spherec.distributed.partitions import HeldInteractions
from spherec.distributed.table import Share
from spherec.embedding import FeatureMap
from spherec.errors import ArgumentError, DataError, FailedProcessError, NotEnoughMemoryError, TrainingError, quote
from spherec.geometry import DenseVectors, Vectors, check_finite
from spherec.sampling import TwoStage
from spherec.training.checkpoint import CheckpointFile, Standing, fingerprint
from spherec.training.config import Plan, Training
from spherec.training.graphs import GraphedBatches
from spherec.training.history import EpochRecord, History
from spherec.training.step import Batches, Run

Validate = Callable[[Vectors], float]
"""Returns how good the vectors are; more is better. They belong to the run in progress: do not keep them."""

Ended = Literal["all epochs done", "no better for a while", "given up", "interrupted"]

Stop = Callable[[History], bool]
"""Called after each validation; True gives the run up."""

ProgressCallback = Callable[[EpochRecord, History], None]
"""Called every so often with the epoch in progress and the epochs before it, and with each epoch that ended."""

_SECONDS_BETWEEN_REPORTS = 0.2
_SECONDS_OF_ONE_REQUEST = 1.0
_COPIES = 4  # of all vectors in memory: the first ones, the rows that learn, and two moments of each
_ENDING_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
# On a CPU torch has no error type for it, only these messages: of its allocator, of sizes beyond 64 bits, of drivers.
_SHORTAGE = re.compile(r"DefaultCPUAllocator|Storage size calculation overflowed|out of memory")


@dataclass(frozen=True)
class Trained:
    """The result of a run."""

    vectors: DenseVectors
    """The best by the validation metric; without one, the last. In a run of several processes, process 0 has all of
    them, the others have those that they hold."""
    config: Training
    "Settings of the run."
    history: History
    "Records of all epochs."
    ended: Ended
    "Reason for the end of the run."
    feature_map: FeatureMap | None = None
    "The map that places items by their features, learned with these vectors; None without features."


def train(
    data: Interactions,
    config: Training | None = None,
    *,
    validate: Validate | None = None,
    device: DeviceName | torch.device = "auto",
    initial: DenseVectors | None = None,
    features: Features | None = None,
    feature_map: FeatureMap | None = None,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_seconds: float = 300.0,
    resume: bool = False,
    progress: ProgressCallback | None = None,
    stop: Stop | None = None,
    save: Callable[[Trained], None] | None = None,
    gather: bool = True,
) -> Trained:
    """Train a model on `data`, beginning with `initial`, or with random vectors.

    The same data, config and device give the same vectors. Ctrl-C, SIGTERM and SIGHUP end the run after the step in
    progress, with the best model so far. `checkpoint` names a file that is written every so many seconds and at the
    end; with `resume`, training continues from it as if it had never stopped. A checkpoint that cannot be written is a
    `CheckpointWarning`. `stop` may give a poor run up.

    With `features` of the items of `data`, in the same order, items are placed by them, too; `feature_map` is a map to
    begin with, learned together with `initial`.

    `save` is called with the result before the last checkpoint is written, so that a full disk costs the checkpoint and
    not the model. If it succeeds, the checkpoint of a run that was not interrupted is no longer needed and is removed.

    In a process group of `torch.distributed`, or under torchrun, the processes train one model together. They call this
    function with the same arguments; `save` is called in process 0 alone. Without `gather`, vectors stay with the
    processes that hold them, and `save` is called in all. If they are interrupted, the checkpoint is written first:
    torchrun kills them 30 seconds later.
    """
    if not data.n_pairs:
        raise DataError("there are no pairs to train on; give interactions with some")
    config = (config or Training()).resolve(data)
    plan = config.plan(data.n_pairs)
    where = resolve(device)
    if features is not None:
        _check_features(features, data, config)
    if not checkpoint_seconds >= 0:
        raise ArgumentError(f"checkpoint_seconds must be >= 0, got {checkpoint_seconds}")
    if resume and checkpoint is None:
        raise ArgumentError("resume is True, but no checkpoint was named; give the path of one")
    group = join_run(config, where, has_features=features is not None)
    if where.type == "cuda":
        content = 0 if features is None else 2 * features.matrix.nbytes
        free = torch.cuda.mem_get_info(where)[0] + _count_unused(where) - content
        refuse_lack_of_memory(data, config, free, 1 if group is None else group.size)
    share = None if group is None else take_share(group, config, where)
    is_first = is_first_process()
    if checkpoint is not None and is_first:
        refuse_unwritable(checkpoint)
    with ExitStack() as held:
        if checkpoint is not None and is_first:
            held.enter_context(lock_output(checkpoint))
        is_validated = validate is not None
        identity: dict[str, Any] = {}
        if checkpoint is not None or share is not None:
            identity = fingerprint(data, config, initial, where, validated=is_validated, features=features)
        if share is not None:
            given = {"resume": resume, "checkpoint": checkpoint is not None, "gather": gather, "epochs": plan.epochs}
            _refuse_different(share.group, {**identity, **given, "patience": config.patience})
        first = _first_vectors(data, config, initial, where, share)
        run, standing, file = Run(data, config, first, features, feature_map, share), Standing(), None
        if checkpoint is not None:
            file = (CheckpointFile if share is None else CheckpointSet)(checkpoint, identity, data.n_pairs)
            if resume:
                standing = file.load(run)
                if share is not None:
                    position = {"epochs": len(standing.history.epochs), "pairs": standing.pairs}
                    _refuse_different(share.group, {f"{name} of the checkpoint": n for name, n in position.items()})
                _refuse_less(standing, plan, file)
        batches = make_batches(run, data, where)
        report_timer, save_timer = Timer(_SECONDS_BETWEEN_REPORTS), Timer(checkpoint_seconds)
        given_up = False
        interrupt = held.enter_context(interruptible())
        for epoch in _epochs_left(standing, plan, config.patience, interrupt, share):
            is_ending = False
            with threads_for(config.batch_size, where):
                batches.begin(epoch, standing.pairs)
                while standing.pairs < data.n_pairs and not is_ending:
                    began = time.perf_counter()
                    standing.add(*batches.step(), time.perf_counter() - began)
                    is_report_due, is_save_due = progress is not None and report_timer.is_due(), save_timer.is_due()
                    is_save_due &= is_first  # each process has a clock of its own
                    signals = interrupt.is_wanted(), is_report_due, is_save_due
                    is_ending, is_report_due, is_save_due = _agree(share, *signals)
                    record = _record(run, standing) if is_report_due else None
                    if progress is not None and record is not None:
                        progress(record, standing.history)
                    if file is not None and is_save_due:
                        _record(run, standing)  # raises if the run has gone wrong and is not worth keeping
                        file.try_save(run, standing, f"training continues and tries again in {checkpoint_seconds:g} s")
            if standing.pairs < data.n_pairs:
                break  # interrupted in the middle of the epoch
            is_due = validate is not None and plan.is_due(epoch)
            _end_epoch(run, standing, validate if is_due else None)
            if progress is not None:
                progress(standing.history.epochs[-1], standing.history)
            if is_due and _agree(share, stop is not None and stop(standing.history))[0]:
                given_up = True
                break
        ended = _why_ended(standing.history, plan, config.patience) or ("given up" if given_up else "interrupted")
        learned = standing.best_map if standing.best else run.copy_feature_map()
        vectors = standing.best or run.held.copy()

        def finish() -> Trained:
            whole = gather_vectors(vectors, data, share) if share is not None and gather else vectors
            return Trained(whole, config, standing.history, ended, learned)

        return _keep(finish, save, file, run, standing, is_interrupted=ended == "interrupted", everywhere=not gather)


def _keep(
    finish: Callable[[], Trained],
    save: Callable[[Trained], None] | None,
    file: CheckpointFile | None,
    run: Run,
    standing: Standing,
    *,
    is_interrupted: bool,
    everywhere: bool,
) -> Trained:
    """Return the result, saved; then write the last checkpoint, or remove it if the run is over.

    It is saved by process 0, or by all of them: `everywhere`.
    """
    failure: Exception | None = None
    is_in_file = is_interrupted and run.share is not None and file is not None
    if file is not None and is_in_file:
        is_in_file = file.try_save(run, standing, "the run cannot be resumed from here")
    try:
        trained = finish()
        if save is not None and (everywhere or is_first_process()):
            save(trained)
    except Exception as error:  # the run is worth keeping all the more
        failure = error
    if _agree(run.share, failure is not None)[0]:
        failure = failure or FailedProcessError("another process could not save the model; see its message")
        if not is_in_file and file is not None:
            is_in_file = file.try_save(run, standing, "the run is lost unless its model can be saved")
        if file is not None and is_in_file:
            failure.add_note(f"{file.path} holds the whole run; resume it to save its model without more training")
        raise failure
    if file is not None and (save is None or is_interrupted):
        if not is_in_file:
            file.try_save(run, standing, "the run cannot be resumed from here, but its model is whole")
    elif file is not None:
        file.remove()
    return trained


def _refuse_different(group: ProcessGroup, facts: dict[str, Any]) -> None:
    """Raise an `ArgumentError` in all processes if they have different facts, which are of the same names."""
    checksums = [zlib.crc32(json.dumps(fact, sort_keys=True).encode()) for fact in facts.values()]
    of_all = torch.stack(group.collect(torch.tensor(checksums, device=group.device), everywhere=True))  # (n, facts)
    differs = (of_all != of_all[0]).any(0).tolist()
    names = [name for name, is_different in zip(facts, differs, strict=True) if is_different]
    if names:
        raise ArgumentError(
            f"the {group.size} processes were not started alike: {', '.join(names)} are not the same in all of them; "
            "give all processes the same arguments and data"
        )


def _refuse_less(standing: Standing, plan: Plan, file: CheckpointFile) -> None:
    """Raise an `ArgumentError` if the run has come further than it is to go."""
    done, begun = len(standing.history.epochs), bool(standing.pairs)
    if done + begun > plan.epochs:
        state = f"{done} done" + (f" and epoch {done + 1} begun" if begun else "")
        raise ArgumentError(
            f"epochs is {plan.epochs}, but {file.path} has {state}; give at least {done + begun}, or start anew"
        )


def join_run(config: Training, device: torch.device, *, has_features: bool) -> ProcessGroup | None:
    """Return the processes that train together; None if this one trains alone.

    The only process of a group trains alone with settings that several could not share; for several, they are an
    `ArgumentError`.
    """
    group, sampler = join_group(device), config.sampler
    problem = None
    if has_features:
        problem = "all items learn one map of their features; leave item_features out"
    elif config.covariance or config.spread_out:
        problem = "covariance and spread_out look at all vectors of a batch; set both to 0"
    elif isinstance(sampler, TwoStage) and sampler.vectors == "frozen":
        problem = "frozen vectors of the sampler are not shared; use vectors='live'"
    elif not sampler.draws_alike:
        problem = f"the sampler {type(sampler).__name__} does not state that it draws alike (draws_alike = True)"
    if problem is None or group is None:
        return group
    if group.size > 1:
        raise ArgumentError(f"several processes cannot train with these settings: {problem}, or train in one process")
    return None


def make_batches(run: Run, data: Interactions, device: torch.device) -> Batches:
    """Return the batches of a run's epochs, as its device makes them fastest."""
    if run.share is not None and isinstance(data, HeldInteractions):
        return PartitionedBatches(run, data, run.share)
    users, items = (torch.tensor(column, device=device) for column in (data.users, data.indices))  # (E,), (E,)
    if run.share is not None and run.share.group.size > 1:
        return SharedBatches(run, (users, items), run.share)
    kind = GraphedBatches if records_graphs(device) else Batches
    return kind(run, (users, items), run.config.batch_size)


def _agree(share: Share | None, *flags: bool) -> Sequence[bool]:
    """Return the flags, in a run of several processes those that any of them has set."""
    return flags if share is None else share.group.agree(*flags)


def _check_features(features: Features, data: Interactions, config: Training) -> None:
    """Raise an error unless the features are those of the items of the data, and the space can take them."""
    if config.constraint != "sphere":
        raise ArgumentError(
            f"item features need constraint 'sphere', got {quote(config.constraint)}; leave one of them"
        )
    if features.item_ids != data.item_ids:
        raise ArgumentError("features must be those of the items of data, in the same order; use features.align")


def _first_vectors(
    data: Interactions, config: Training, initial: DenseVectors | None, device: torch.device, share: Share | None
) -> DenseVectors:
    """Return the vectors before the first step, on the device; with a share, those that this process holds."""
    if initial is None and share is not None:
        return draw_held(data, config, share).to(device)
    if initial is None:  # drawn on the CPU, so that all devices start from the same vectors
        generator = rng.torch_stream(config.seed, "initial vectors")
        initial = DenseVectors.random(data.n_users, data.n_items, config.dim, generator)
    for name, rows, count in (("user", initial.user_table, data.n_users), ("item", initial.item_table, data.n_items)):
        if rows.shape != (count, config.dim):
            raise ArgumentError(
                f"initial {name} vectors must be of shape {(count, config.dim)} for this data and dim, got "
                f"{(*rows.shape,)}"
            )
    reach = initial.item_reach
    if reach is not None and (not config.reach or reach.shape[1] != config.subspaces):
        wanted = f"of shape {(data.n_items, config.subspaces)}" if config.reach else "None, because reach is False"
        raise ArgumentError(f"initial item_reach must be {wanted}, got shape {(*reach.shape,)}")
    initial = replace(initial, constraint=config.constraint)
    check_finite(initial)
    return (initial if share is None else hold_vectors(initial, share)).to(device)


def _epochs_left(
    standing: Standing, plan: Plan, patience: int, interrupt: "Interrupt", share: Share | None
) -> Iterator[int]:
    """Yield the epochs to train, counted from 0, the one in progress first, until the run is over or interrupted."""
    while not _agree(share, interrupt.is_wanted())[0] and _why_ended(standing.history, plan, patience) is None:
        yield len(standing.history.epochs)


def _why_ended(history: History, plan: Plan, patience: int) -> Ended | None:
    """Return why the run is over; None if it is not."""
    if len(history.epochs) >= plan.epochs:
        return "all epochs done"
    return "no better for a while" if history.should_stop(patience) else None


def _end_epoch(run: Run, standing: Standing, validate: Validate | None) -> None:
    """Add the epoch to the history, with the metric of the vectors after it; keep a copy of them if they are best."""
    record = _record(run, standing)
    if validate is None:
        standing.history = standing.history.with_epoch(record)
    else:
        metric = float(validate(run.vectors))
        if not math.isfinite(metric):
            raise TrainingError(f"validate gave {metric} after epoch {record.epoch}; it must give a finite number")
        standing.history = standing.history.with_epoch(replace(record, metric=metric))
        if standing.history.is_best():
            standing.best, standing.best_map = run.held.copy(), run.copy_feature_map()
    standing.begin_epoch()
    run.sums.zero_()


def _record(run: Run, standing: Standing) -> EpochRecord:
    """Return the epoch so far. Reading the sums waits for the device, so call it only now and then."""
    began = time.perf_counter()
    loss, active, masked = run.read_sums()
    standing.seconds += time.perf_counter() - began
    epoch = len(standing.history.epochs) + 1
    if not math.isfinite(loss):
        raise TrainingError(f"the loss is {loss} in epoch {epoch}; lower learning_rate, or the weights of penalties")
    return EpochRecord(
        epoch=epoch,
        pairs=standing.pairs,
        seconds=standing.seconds,
        loss=loss / standing.pairs,
        active=active / standing.pairs,
        masked=masked / standing.places,
        triplets_per_second=standing.places / standing.seconds,
    )


class Timer:
    """Tells every so many seconds that it is time again; with 0 seconds, always."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last = time.monotonic()

    def is_due(self) -> bool:
        """Tell whether that many seconds have passed since it last was due."""
        now = time.monotonic()
        if now - self._last < self._seconds:
            return False
        self._last = now
        return True


class Interrupt:
    """A handler of signals that ask for an end: it sets a flag, so that the step in progress ends first."""

    def __init__(self) -> None:
        self.number: int | None = None
        "The signal that came first."
        self._when = 0.0

    def is_wanted(self) -> bool:
        """Tell whether a signal came."""
        return self.number is not None

    def note(self, number: int) -> None:
        """Set the flag."""
        self.number, self._when = number, time.monotonic()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Set the flag at the first signal; end at once at the second.

        A SIGTERM or SIGHUP right after another signal is the same request: a terminal that closes sends it twice,
        systemd sends SIGHUP after SIGTERM, and torchrun passes on what Slurm has sent to all processes.
        """
        del frame
        if self.number is None:
            self.note(number)
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
        elif time.monotonic() - self._when > _SECONDS_OF_ONE_REQUEST:
            raise SystemExit(128 + number)


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Let Ctrl-C (SIGINT), SIGTERM and SIGHUP set a flag instead of ending the process, within this block.

    Does nothing outside the main thread, which alone gets signals. A signal that is ignored, as SIGHUP is under nohup,
    stays ignored. An enclosing block is flagged as well. The caller's own handler of SIGTERM or SIGHUP is called when
    the block has ended.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = {number: signal.getsignal(number) for number in _ENDING_SIGNALS}
    before = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if interrupt.number is not None:
            handler = before[interrupt.number]
            if isinstance(handler, Interrupt):
                handler.note(interrupt.number)
            elif callable(handler) and interrupt.number != signal.SIGINT:
                handler(interrupt.number, None)


def refuse_lack_of_memory(data: Interactions, config: Training, free: int, processes: int = 1) -> None:
    """Raise a `NotEnoughMemoryError` if the vectors and what the optimiser keeps of them exceed the free bytes.

    Each of several processes holds its share of them on a GPU of its own.
    """
    of_one = 4 * _COPIES * (data.n_users + data.n_items) // processes  # bytes of one dimension
    needed = of_one * (config.dim + config.subspaces * config.reach)
    if needed > free:
        raise NotEnoughMemoryError(
            f"{data.n_users:,} users and {data.n_items:,} items with dim {config.dim:,} take {needed / 1e9:,.1f} GB of "
            f"the GPU's memory, and {free / 1e9:,.1f} GB are free; take a dim of at most {free // of_one:,}, drop rare "
            f"users and items, divide them among {-(-needed * processes // max(free, 1))} GPUs (docs/scaling.md), or "
            "train with device='cpu' if the machine has more memory than its GPU"
        )


def _count_unused(device: torch.device) -> int:
    """Return the bytes that torch holds of a GPU's memory without using them."""
    return torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


@contextmanager
def enough_memory() -> Iterator[None]:
    """Raise a `NotEnoughMemoryError` if the block runs out of memory."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and not _SHORTAGE.search(str(error)):
            raise
        raise NotEnoughMemoryError("there is not enough memory; take smaller dim, batch_size or negatives") from None
