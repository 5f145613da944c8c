"""A run as one file, from which training continues as if it had never stopped.

A container like a prepared data set: no pickle, a checksum, written atomically. It holds the tables with their
moments as they are, rows not caught up: writing it changes nothing, so a run with checkpoints ends with the same
vectors as one without.
"""

import json
import re
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from spherec.data.container import checksum, read_container, read_manifest, write_container
from spherec.embedding import FeatureMap
from spherec.errors import CheckpointWarning, DataError, shorten
from spherec.geometry import DenseVectors
from spherec.training.history import History
from spherec.training.step import Run

_KIND = "spherec-checkpoint"  # of the file
_PART = re.compile(r"\.\d+\.\d+-of-\d+(\.\w{8}\.part|\.lock)?")  # the end of a part's name, or of its lock


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

    def add(self, pairs: int, places: int, seconds: float) -> None:
        """Count a step."""
        self.pairs, self.places, self.seconds = self.pairs + pairs, self.places + places, self.seconds + seconds

    def begin_epoch(self) -> None:
        """Count from 0 again."""
        self.pairs, self.places, self.seconds = 0, 0, 0.0


class CheckpointFile:
    """The checkpoint of one run at a path; `identity` is what must be the same to continue from it."""

    def __init__(self, path: Path, identity: dict[str, Any]) -> None:
        self.path = path
        self._identity = identity
        self._problem: str | None = None

    def try_save(self, run: Run, standing: Standing, remedy: str) -> bool:
        """Write the run in place of what was written before, and return whether it worked.

        Warn if it did not, once for each new problem.
        """
        is_saved, problem = self._commit(run, standing)
        if problem is not None and problem != self._problem:
            text = f"no checkpoint in epoch {len(standing.history.epochs) + 1}: {problem}; {remedy}"
            warnings.warn(CheckpointWarning(text), stacklevel=3)
        self._problem = problem
        return is_saved

    def _commit(self, run: Run, standing: Standing) -> tuple[bool, str | None]:
        """Write the run; return whether it worked, and what went wrong in this process."""
        problem = self._try_write(self.path, run, standing)
        return problem is None, problem

    def _try_write(self, path: Path, run: Run, standing: Standing, **facts: int) -> str | None:
        """Write a container, with `facts` in its manifest; return what went wrong."""
        tensors = run.embedding.state() | {"sums": run.sums, "generator": run.generator.get_state()}
        if standing.best is not None:
            best, learned = standing.best, standing.best_map
            kept = {"best_users": best.user_table, "best_items": best.item_table, "best_reach": best.item_reach}
            if learned is not None:
                kept |= {"best_weights": learned.weights, "best_lengths": learned.lengths}
            tensors |= {name: tensor for name, tensor in kept.items() if tensor is not None}
        try:
            arrays = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
            self._write(path, arrays, self._describe(standing) | facts)
        except (DataError, MemoryError) as error:
            return str(error) or "memory is short"
        return None

    def _write(self, path: Path, arrays: dict[str, NDArray[Any]], manifest: dict[str, Any]) -> None:
        write_container(path, _KIND, arrays, manifest, mode=0o600)  # the model may be private

    def _describe(self, standing: Standing) -> dict[str, Any]:
        """Return the manifest of the file."""
        return {
            "identity": self._identity,
            "pairs": standing.pairs,
            "places": standing.places,
            "seconds": standing.seconds,
            "history": standing.history.as_records(),
        }

    def _read(self, run: Run) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return the arrays and the manifest of the file; raise an error if it is that of another run."""
        del run
        return self._read_own(self.path)

    def _read_own(self, path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Read an archive; raise a `DataError` that names the difference if it is that of another run."""
        arrays, manifest = read_container(path, _KIND, remedy="start anew")
        found, wanted = manifest["identity"], json.loads(json.dumps(self._identity))
        for name in {**wanted, **found}:  # a setting may be in one of them alone
            if found.get(name) != wanted.get(name):
                values = [one.get(name) for one in (found, wanted)]
                value, here = ("not given" if one is None else shorten(str(one)) for one in values)
                raise DataError(
                    f"{path} is the checkpoint of another run: its {name} is {value}, here it is {here}; "
                    "train with the same settings and data, or start anew"
                )
        return arrays, manifest

    def remove(self) -> None:
        """Remove what was written, if there is anything."""
        remove_checkpoint(self.path)

    def load(self, run: Run) -> Standing:
        """Put the run into the state of the file, and return its position."""
        arrays, manifest = self._read(run)
        try:
            return _restore(run, arrays, manifest)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise DataError(f"{self.path} is damaged ({shorten(str(error))}); start anew") from None


def remove_checkpoint(path: Path) -> None:
    """Remove the checkpoint of a run of one process or several, if there is one."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
    remove_parts(path)


def remove_parts(path: Path, keep: str | None = None) -> None:
    """Remove the parts of all sets of a checkpoint, except those whose names continue with `keep`.

    Those that a killed process left half-written are hidden files.
    """
    for begin in (path.name, f".{path.name}"):
        for part in path.parent.glob(f"{escape(begin)}.*.*-of-*"):
            end = part.name.removeprefix(begin)
            if _PART.fullmatch(end) and (keep is None or not end.startswith(keep)):
                with suppress(OSError):
                    part.unlink()


def count_epochs(path: Path) -> int:
    """Return the number of epochs that the run of a checkpoint has done."""
    return len(read_manifest(path, _KIND, remedy="start anew")["history"])


def describe_run(run: Run, *, is_validated: bool) -> dict[str, Any]:
    """Return what must be the same for a run to continue, and in all of its processes.

    That is everything but its length, unless a schedule depends on that. Settings go by their dotted names.
    """
    data, initial, features, settings = run.data, run.initial, run.features, run.config.to_dict()
    for name in ("patience", *(("epochs",) if run.config.optimizer.schedule == "constant" else ())):
        del settings[name]
    parts = {name: settings.pop(name) for name, value in list(settings.items()) if isinstance(value, dict)}
    settings |= {f"{name}.{key}": value for name, part in parts.items() for key, value in part.items()}
    tables = () if initial is None else (initial.user_table, initial.item_table, initial.item_reach)
    given = "-".join(checksum(table.cpu().numpy()) for table in tables if table is not None) or None
    pairs = f"{data.n_pairs} pairs, checksum {data.pairs_checksum}"
    return settings | {
        "data": f"{data.n_users} users, {data.n_items} items, {pairs}",
        "ids": f"checksum {data.ids_checksum}",
        "weights": data.weights_checksum,
        "features": None if features is None else f"checksum {checksum(features.matrix, features.known)}",
        "initial": given and f"checksum {given}",
        "device": run.crew.device.type,
        "validated": is_validated,
    }


def _restore(run: Run, arrays: dict[str, NDArray[Any]], manifest: dict[str, Any]) -> Standing:
    """Put the run into the state of the arrays, and return its position."""
    history = History.from_records(manifest["history"])
    standing = Standing(manifest["pairs"], manifest["places"], manifest["seconds"], history)
    saved = {name: torch.tensor(array) for name, array in arrays.items()}  # copies: the arrays are read-only
    for name, tensor in (run.embedding.state() | {"sums": run.sums}).items():
        if (saved[name].shape, saved[name].dtype) != (tensor.shape, tensor.dtype):
            raise ValueError(f"{name} is {saved[name].dtype} of shape {(*saved[name].shape,)}")
        tensor.copy_(saved[name])
    run.generator.set_state(saved["generator"])
    if history.best is not None:
        best = {name: tensor.to(run.crew.device) for name, tensor in saved.items() if name.startswith("best_")}
        config, tables = run.config, (best["best_users"], best["best_items"])
        standing.best = DenseVectors(*tables, config.constraint, best.get("best_reach"), config.mainstream)
        if "best_weights" in best:
            standing.best_map = FeatureMap(best["best_weights"], best["best_lengths"])
    return standing
