"""A run as one file, from which training continues as if it had never stopped.

An archive of arrays like a prepared data set: no pickle, checksums, written atomically. It holds the tables with their
moments as they are, rows not caught up: writing it changes nothing, so a run with checkpoints ends with the same
vectors as one without.
"""

import json
import re
import warnings
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from glob import escape
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.data.archive import checksum, read_archive, read_manifest, write_archive
from spherec.data.features import Features
from spherec.data.interactions import Interactions
from spherec.data.output_files import refuse_unwritable
from spherec.embedding import FeatureMap, FeatureTable
from spherec.errors import CheckpointWarning, DataError, SpherecError, shorten
from spherec.geometry import DenseVectors
from spherec.training.config import Training
from spherec.training.history import EpochRecord, History
from spherec.training.step import Run

FORMAT = "spherec-checkpoint"
VERSION = 2
_PART = re.compile(r"\.\d+\.\d+-of-\d+(\.\w{8}\.part)?")  # the end of a part's name; or of one that was being written


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
    """The checkpoint of one run at a path."""

    def __init__(self, path: str | PathLike[str], identity: dict[str, Any], pairs: int) -> None:
        refuse_unwritable(path)
        self.path = Path(path)
        self._identity = json.loads(json.dumps(identity))  # as it comes back from the file
        self._pairs = pairs  # E
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
        """Write an archive, and return what went wrong."""
        try:
            self._write(path, run, standing, **facts)
        except (DataError, MemoryError) as error:
            return str(error) or "memory is short"
        return None

    def _write(self, path: Path, run: Run, standing: Standing, **facts: int) -> None:
        """Write an archive, with `facts` in its manifest."""
        tensors = _tensors(run) | {"generator": run.generator.get_state()}
        if standing.best is not None:
            tensors |= {"best_users": standing.best.user_table, "best_items": standing.best.item_table}
            if standing.best.item_reach is not None:
                tensors["best_reach"] = standing.best.item_reach
            if standing.best_map is not None:
                tensors |= {"best_weights": standing.best_map.weights, "best_lengths": standing.best_map.lengths}
        write_archive(
            path,
            {name: tensor.cpu().numpy() for name, tensor in tensors.items()},
            self._describe(standing) | facts,
            compress=False,
            mode=0o600,  # the model may be private
        )

    def _describe(self, standing: Standing) -> dict[str, Any]:
        """Return the manifest of the file."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "identity": self._identity,
            "pairs": standing.pairs,
            "places": standing.places,
            "seconds": standing.seconds,
            "history": standing.history.as_records(),
        }

    def _read(self, run: Run) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return the arrays and the manifest of the file; raise an error if it is that of another run."""
        del run
        arrays, manifest = read_archive(self.path, FORMAT, VERSION, remedy="start anew")
        self._refuse_other(self.path, manifest)
        return arrays, manifest

    def _refuse_other(self, path: Path, manifest: dict[str, Any]) -> None:
        identity = _table(manifest["identity"], "identity")
        if identity.get("processes") != self._identity.get("processes"):
            where = "under" if "processes" in identity else "without"
            raise DataError(f"{path} is the checkpoint of a run {where} torchrun; continue it {where} torchrun")
        difference = _find_difference(identity, self._identity)
        if difference is not None:
            name, value, here = difference
            raise DataError(
                f"{path} is the checkpoint of another run: its {name} is {value}, here it is {here}; "
                "train with the same settings and data, or start anew"
            )

    def remove(self) -> None:
        """Remove what was written, if there is anything."""
        remove_checkpoint(self.path)

    def load(self, run: Run) -> Standing:
        """Put the run into the state of the file, and return its position."""
        try:
            return _restore(run, *self._read(run), self._pairs)
        except (KeyError, TypeError, ValueError, RuntimeError, ArithmeticError) as error:
            if isinstance(error, SpherecError):
                raise
            missing = f"{error.args[0]} is missing" if isinstance(error, KeyError) and error.args else error
            raise DataError(f"{self.path} is damaged ({shorten(str(missing))}); start anew") from None


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


def count_epochs(path: str | PathLike[str]) -> int:
    """Return the number of epochs that the run of a checkpoint has done."""
    history = read_manifest(path, FORMAT, VERSION, remedy="start anew").get("history")
    return len(history) if isinstance(history, list) else 0


def _restore(run: Run, arrays: dict[str, NDArray[Any]], manifest: dict[str, Any], n_pairs: int) -> Standing:
    """Put the run into the state of the arrays, and return its position; everything is checked before."""
    tensors = _tensors(run)
    best = best_map = None
    config = run.config
    rows: dict[str, tuple[int, ...]] = {
        "best_users": (run.held.n_users, config.dim),
        "best_items": (run.held.n_items, config.dim),
    }
    if config.reach:
        rows["best_reach"] = (run.held.n_items, config.subspaces)
    if isinstance(run.embedding, FeatureTable):
        rows |= {"best_weights": run.embedding.weights().shape, "best_lengths": (run.n_items, config.subspaces)}
    for name, tensor in tensors.items():
        _check_array(name, arrays[name], (*tensor.shape,), str(tensor.dtype).removeprefix("torch."))
    standing = _check_position(manifest, n_pairs, run.config.batch_size)
    if standing.history.best is not None:
        for name, shape in rows.items():
            _check_array(name, arrays[name], shape, "float32")
        kept = {name: _tensor(arrays[name]).to(run.vectors.device) for name in rows}
        reach = kept.get("best_reach")
        best = DenseVectors(kept["best_users"], kept["best_items"], config.constraint, reach, config.mainstream)
        if "best_weights" in kept:
            best_map = FeatureMap(kept["best_weights"], kept["best_lengths"])
    elif set(rows) & set(arrays):
        raise ValueError("it has best vectors, but no epoch was validated")
    steps_per_epoch = -(-n_pairs // run.config.batch_size)
    steps = len(standing.history.epochs) * steps_per_epoch + -(-standing.pairs // run.config.batch_size)
    if int(arrays["steps"][0]) != steps:
        raise ValueError(f"it has {int(arrays['steps'][0])} steps, its epochs {steps}")
    if arrays["square"].min(initial=0) < 0:
        raise ValueError("square must be >= 0")
    last = arrays["last"]
    if last.min(initial=0) < 0 or last.max(initial=0) > steps:
        raise ValueError(f"last must be in 0 … {steps}")
    state = run.generator.get_state()
    _check_array("generator", arrays["generator"], (*state.shape,), "uint8")
    run.generator.set_state(_tensor(arrays["generator"]))
    for name, tensor in tensors.items():
        tensor.copy_(_tensor(arrays[name]))
    return replace(standing, best=best, best_map=best_map)


def _check_position(manifest: dict[str, Any], n_pairs: int, batch_size: int) -> Standing:
    """Return the position in the manifest, without the best vectors; raise a ValueError unless a run can be there."""
    records = manifest["history"]
    if not isinstance(records, list):
        raise ValueError("history must be a list")
    names = {one.name for one in fields(EpochRecord)}
    if any(set(_table(record, "an epoch")) != names for record in records):
        raise ValueError(f"an epoch must have {', '.join(sorted(names))}")
    history = History.from_records(records)
    for number, record in enumerate(history.epochs, 1):
        if (_whole(record.epoch, "epoch"), _whole(record.pairs, "pairs")) != (number, n_pairs):
            raise ValueError(f"epoch {number} of the history is epoch {record.epoch} with {record.pairs} pairs")
        for name in ("seconds", "loss", "active", "masked", "triplets_per_second"):
            _number(getattr(record, name), name)
        if record.metric is not None:
            _number(record.metric, "metric")
    pairs, places = _whole(manifest["pairs"], "pairs"), _whole(manifest["places"], "places")
    seconds = _number(manifest["seconds"], "seconds")
    if not 0 <= pairs <= n_pairs or (pairs % batch_size and pairs != n_pairs):
        raise ValueError(f"pairs must be whole batches of {batch_size} in 0 … {n_pairs}, got {pairs}")
    if (places <= 0 or seconds <= 0) if pairs else (places or seconds):
        raise ValueError(f"{places} places in {seconds} seconds do not fit {pairs} pairs")
    return Standing(pairs, places, seconds, history)


def _check_array(name: str, array: NDArray[Any], shape: tuple[int, ...], dtype: str) -> None:
    """Raise a ValueError unless the array is of this shape and type, and finite."""
    if array.shape != shape or array.dtype.name != dtype:
        raise ValueError(f"{name} is {array.dtype.name} of shape {array.shape}, not {dtype} of shape {shape}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinity")


def _table(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a table")
    return value


def _whole(value: Any, name: str) -> int:
    if type(value) is not int or abs(value) >= 1 << 62:
        raise ValueError(f"{name} must be a whole number, got {shorten(str(value))}")
    return value


def _number(value: Any, name: str) -> float:
    if type(value) not in (int, float) or not abs(value) < float("inf"):
        raise ValueError(f"{name} must be a number, got {shorten(str(value))}")
    return float(value)


def fingerprint(
    data: Interactions,
    config: Training,
    initial: DenseVectors | None,
    device: torch.device,
    *,
    validated: bool,
    features: Features | None = None,
) -> dict[str, Any]:
    """Return what must be the same for a run to continue: all but its length, unless a schedule depends on that."""
    settings = config.to_record()
    for name in ("patience", *(("epochs",) if config.optimizer.schedule == "constant" else ())):
        del settings[name]
    tables = () if initial is None else (initial.user_table, initial.item_table, initial.item_reach)
    given = [rows.cpu().numpy() for rows in tables if rows is not None]
    pairs = f"{data.n_pairs} pairs, checksum {data.pairs_checksum}"
    content = {}
    if features is not None:
        content["features"] = f"{features.n_features} numbers, checksum {checksum(features.matrix, features.known)}"
    if data.weights is not None:
        content["weights"] = f"checksum {data.weights_checksum}"
    return {
        **settings,
        **content,
        "data": f"{data.n_users} users, {data.n_items} items, {pairs}",
        "initial": None if initial is None else f"checksum {checksum(*given)}",
        "device": device.type,
        "validated": validated,
    }


def _tensors(run: Run) -> dict[str, torch.Tensor]:
    """Return the run's tensors by name; writing into them changes the run."""
    return run.embedding.state() | {"sums": run.sums}


def _tensor(array: NDArray[Any]) -> torch.Tensor:
    return torch.tensor(array)  # a copy, because the array is read-only


def _find_difference(found: dict[str, Any], wanted: dict[str, Any]) -> tuple[str, str, str] | None:
    """Return the first setting that differs, with both values as text; None if there is none."""
    for name in {**wanted, **found}:  # a setting at its default may be in one of them alone
        value, here = found.get(name), wanted.get(name)
        if isinstance(value, dict) and isinstance(here, dict):
            inner = _find_difference(value, here)
            if inner is not None:
                return f"{name}.{inner[0]}", inner[1], inner[2]
        elif value != here:
            return name, _show_value(value), _show_value(here)
    return None


def _show_value(value: Any) -> str:
    return "not given" if value is None else shorten(json.dumps(value) if isinstance(value, dict) else str(value))
