"""The files of a run: the model that it writes, and a checkpoint, from which it continues as if it had never stopped.

A checkpoint is a container like a prepared data set: no pickle, a checksum, written atomically. It holds the tables
with their moments as they are, rows not caught up: writing it changes nothing, so a run with checkpoints ends with the
same vectors as one without.
"""

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from os import PathLike
from os.path import realpath
from pathlib import Path
from typing import Any

import torch

from spherec.data.container import Arrays, checksum, read_manifest, remove_parts
from spherec.data.input_files import check_path
from spherec.data.output_files import lock_output
from spherec.embedding import FeatureMap
from spherec.errors import ArgumentError, CheckpointWarning, DataError, FailedProcessError, check_number, shorten
from spherec.geometry import DenseVectors
from spherec.training.crew import CHECKPOINT_KIND, Crew
from spherec.training.step import Run


@dataclass(frozen=True)
class EpochRecord:
    """One pass over the training pairs."""

    epoch: int
    "Counted from 1."
    pairs: int
    "Pairs learned from."
    seconds: float
    "Time spent in this epoch's steps."
    loss: float
    "Mean loss over the pairs."
    active: float
    "Share of pairs with a negative inside the margin (hinge), or nearer than the positive (softmin)."
    masked: float
    "Share of places without a negative: none was found, or the item of a shared pool is one that the user has."
    triplets_per_second: float
    "Pairs with each of their negatives, in a second."
    metric: float | None = None
    "Validation metric after this epoch, if there was one; more is better."


@dataclass(frozen=True)
class History:
    """The epochs of a run so far."""

    epochs: tuple[EpochRecord, ...] = ()

    @property
    def best(self) -> EpochRecord | None:
        """The epoch with the best metric, the first of them; None without validation."""
        validated = [record for record in self.epochs if record.metric is not None]
        return max(validated, key=lambda record: record.metric or 0.0, default=None)

    def should_stop(self, patience: int) -> bool:
        """Tell whether that many validations have passed without a new best."""
        best = self.best
        if best is None:
            return False
        later = [record for record in self.epochs if record.metric is not None and record.epoch > best.epoch]
        return len(later) >= patience

    def as_records(self) -> list[dict[str, Any]]:
        """Return plain data, one dictionary an epoch."""
        return [asdict(record) for record in self.epochs]

    @classmethod
    def from_records(cls, records: Sequence[dict[str, Any]]) -> "History":
        """Return the history that `as_records` wrote; raise a TypeError if it is another."""
        return cls(tuple(EpochRecord(**record) for record in records))


@dataclass
class Standing:
    """Position of a run: counts of the epoch in progress, the epochs before it, the best vectors so far."""

    pairs: int = 0
    "Pairs learned from in this epoch."
    places: int = 0
    "Places for negatives in this epoch: pairs with each of their negatives."
    seconds: float = 0.0
    "Time spent in this epoch's steps."
    history: History = field(default_factory=History)
    "The epochs before."
    best: DenseVectors | None = None
    "The vectors after the best epoch, if there was a validation."
    best_map: FeatureMap | None = None
    "The map of features after the best epoch, if items have features."


class RunFiles:
    """The files of one run. They are locked while it lasts, and only ever replaced as a whole.

    Args:
        output: File to which the model is saved at the end. Once it is on disk, the checkpoint is removed, unless the
            run was interrupted. Without it, call `save` of the model yourself.
        checkpoint: File to which the state of the run is written every `checkpoint_seconds` and at the end. One that
            cannot be written is a `CheckpointWarning`.
        checkpoint_seconds: Seconds between two checkpoints.
        resume: Continue from the checkpoint, as if training had never stopped.
        in_shards: In a run of several processes, each writes the vectors that it holds into a shard next to `output`,
            and none has the whole model afterwards. By default the first one collects all of them.
    """

    def __init__(
        self,
        output: str | PathLike[str] | None = None,
        checkpoint: str | PathLike[str] | None = None,
        *,
        checkpoint_seconds: float = 300.0,
        resume: bool = False,
        in_shards: bool = False,
    ) -> None:
        if resume and checkpoint is None:
            raise ArgumentError("resume is True, but no checkpoint was named; give the path of one")
        if in_shards and output is None:
            raise ArgumentError("in_shards (--shards) is for a model that is written; name its output")
        check_number("checkpoint_seconds", checkpoint_seconds, 0, float("inf"))
        paths = (None if path is None else Path(check_path(path)) for path in (output, checkpoint))
        self.output, self.checkpoint = paths
        if self.output and self.checkpoint and realpath(self.output) == realpath(self.checkpoint):
            raise ArgumentError(f"output and checkpoint are both {self.output}; name two files")
        self.checkpoint_seconds, self.resume, self.in_shards = checkpoint_seconds, resume, in_shards
        self._identity: dict[str, Any] = {}  # what must be the same to continue from the checkpoint

    @contextmanager
    def open(self, crew: Crew) -> Iterator[None]:
        """Lock the files, which must be possible to write, within this block."""
        if self.in_shards and not crew.has_shares:
            raise ArgumentError("in_shards (--shards) is for several processes; start them with torchrun")
        with ExitStack() as locks:
            for path in (self.output, self.checkpoint):
                if path is not None and crew.is_first:
                    locks.enter_context(lock_output(path))
            yield

    def begin(self, run: Run, *, is_validated: bool) -> Standing:
        """Return the position from which a new run is to continue, and put it into that state."""
        crew = run.crew
        if self.checkpoint is not None or crew.size > 1:
            self._identity = _describe_run(run, is_validated=is_validated)
        lasts = {"epochs": run.plan.epochs, "patience": run.config.patience}
        given = {"checkpoint": self.checkpoint is not None, "resume": self.resume, "in_shards": self.in_shards}
        crew.check_alike({**self._identity, **lasts, **given})
        if self.checkpoint is None or not self.resume:
            return Standing()
        standing = self._load(self.checkpoint, run)
        begun = len(standing.history.epochs) + bool(standing.pairs)
        crew.check_alike({"epochs of the checkpoint": begun, "pairs of the checkpoint": standing.pairs})
        if begun > run.plan.epochs:
            raise ArgumentError(
                f"epochs is {run.plan.epochs}, but {self.checkpoint} has begun epoch {begun}; give at least {begun}"
            )
        return standing

    def save(self, run: Run, standing: Standing, remedy: str = "") -> bool:
        """Write the checkpoint in place of the one before, and return whether it worked; warn if it did not."""
        if self.checkpoint is None:
            return False
        counts = {"pairs": standing.pairs, "places": standing.places, "seconds": standing.seconds}
        facts = {"identity": self._identity, **counts, "history": standing.history.as_records()}
        try:
            run.crew.write_checkpoint(self.checkpoint, partial(_collect_arrays, run, standing), facts)
            return True
        except FailedProcessError:
            return False  # the other process warns
        except (DataError, MemoryError) as error:
            remedy = remedy or f"training continues and tries again in {self.checkpoint_seconds:g} s"
            text = f"no checkpoint: {error or 'memory is short'}; {remedy}"
            warnings.warn(CheckpointWarning(text), stacklevel=2)  # Python shows the same text once
            return False

    @contextmanager
    def closing(self, run: Run, standing: Standing, *, is_interrupted: bool, is_saved: bool) -> Iterator[None]:
        """Save the model in this block. The checkpoint of a finished run that was saved is removed.

        That of an interrupted run of several processes is written first: torchrun kills them after 30 seconds. Others
        come last: none takes the room of the model.
        """
        failure: Exception | None = None
        without = "the run cannot be resumed from here, but its model is saved"
        is_written = is_interrupted and run.crew.size > 1 and self.save(run, standing, without)
        try:
            yield
        except Exception as error:
            failure = error
        if run.crew.agree(failure is not None)[0]:
            failure = failure or FailedProcessError("another process could not save the model; see its message")
            if is_written or self.save(run, standing, "the run is lost unless its model can be saved"):
                note = f"{self.checkpoint} holds the whole run; resume it to save its model without more training"
                failure.add_note(note)
            raise failure
        if self.checkpoint is not None and is_saved and self.output is not None and not is_interrupted:
            remove_checkpoint(self.checkpoint)
        elif not is_written:
            self.save(run, standing, without)

    def _load(self, path: Path, run: Run) -> Standing:
        """Put the run into the state of the checkpoint, and return its position."""
        found = read_manifest(path, CHECKPOINT_KIND, remedy="start anew").get("identity", {})
        wanted = json.loads(json.dumps(self._identity))
        for name in {**wanted, **found}:  # a setting may be in one of them alone
            if found.get(name) != wanted.get(name):
                values = (one.get(name) for one in (found, wanted))
                value, here = ("not given" if one is None else shorten(str(one)) for one in values)
                raise DataError(
                    f"{path} is the checkpoint of another run: its {name} is {value}, here it is {here}; "
                    "train with the same settings and data, or start anew"
                )
        return _restore(run, *run.crew.read_checkpoint(path, run))


def _collect_arrays(run: Run, standing: Standing) -> Arrays:
    """Return the arrays of a checkpoint."""
    tensors: dict[str, torch.Tensor | None] = {**run.embedding.state(), "sums": run.sums}
    tensors["generator"] = run.generator.get_state()
    if (best := standing.best) is not None:
        tensors |= {"best_users": best.user_table, "best_items": best.item_table, "best_reach": best.item_reach}
    if (learned := standing.best_map) is not None:
        tensors |= {"best_weights": learned.weights, "best_lengths": learned.lengths}
    return {name: tensor.cpu().numpy() for name, tensor in tensors.items() if tensor is not None}


def _restore(run: Run, arrays: Arrays, manifest: dict[str, Any]) -> Standing:
    """Put the run into the state of the arrays, and return its position."""
    history = History.from_records(manifest["history"])
    standing = Standing(manifest["pairs"], manifest["places"], manifest["seconds"], history)
    saved = {name: torch.tensor(array) for name, array in arrays.items()}  # copies: the arrays are read-only
    for name, tensor in (run.embedding.state() | {"sums": run.sums}).items():
        tensor.copy_(saved[name])
    run.generator.set_state(saved["generator"])
    if history.best is not None:
        best = {name: tensor.to(run.crew.device) for name, tensor in saved.items() if name.startswith("best_")}
        config, tables = run.config, (best["best_users"], best["best_items"])
        standing.best = DenseVectors(*tables, config.constraint, best.get("best_reach"), config.mainstream)
        if "best_weights" in best:
            standing.best_map = FeatureMap(best["best_weights"], best["best_lengths"])
    return standing


def remove_checkpoint(path: Path) -> None:
    """Remove the checkpoint of a run of one process or several, if there is one."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
    remove_parts(path)


def count_epochs(path: Path) -> int:
    """Return the number of epochs that the run of a checkpoint has done."""
    return len(read_manifest(path, CHECKPOINT_KIND, remedy="start anew")["history"])


def _describe_run(run: Run, *, is_validated: bool) -> dict[str, Any]:
    """Return what must be the same for a run to continue, and in all of its processes.

    That is everything but its length, unless a schedule depends on that. Settings go by their dotted names.
    """
    data, features, settings = run.data, run.features, run.config.to_dict()
    for name in ("patience", *(("epochs",) if run.config.optimizer.schedule == "constant" else ())):
        del settings[name]
    parts = {name: settings.pop(name) for name, value in list(settings.items()) if isinstance(value, dict)}
    settings |= {f"{name}.{key}": value for name, part in parts.items() for key, value in part.items()}
    checksums = data.checksums
    pairs = f"{data.n_pairs} pairs, checksum {checksums['pairs']}"
    return settings | {
        "data": f"{data.n_users} users, {data.n_items} items, {pairs}",
        "ids": f"checksum {checksums['ids']}",
        "weights": checksums["weights"],
        "features": None if features is None else f"checksum {checksum(features.matrix, features.known)}",
        "device": run.crew.device.type,
        "processes": "one or more, under torchrun or from partitions" if run.crew.has_shares else None,
        "validated": is_validated,
    }
