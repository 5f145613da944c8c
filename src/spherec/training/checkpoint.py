"""A run as one file, from which training continues as if it had never stopped.

An archive of arrays like a prepared data set: no pickle, checksums, written atomically. It holds the tables with their
moments as they are, rows not caught up: writing it changes nothing, so a run with checkpoints ends with the same
vectors as one without.
"""

from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from spherec.data.files import checksum, read_archive, refuse_unwritable, write_archive
from spherec.data.interactions import Interactions
from spherec.errors import DataError, SpherecError
from spherec.geometry import DenseVectors
from spherec.training.config import Training
from spherec.training.history import History
from spherec.training.step import Run

FORMAT = "spherec-checkpoint"
VERSION = 2


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

    def add(self, pairs: int, places: int, seconds: float) -> None:
        """Count a step."""
        self.pairs, self.places, self.seconds = self.pairs + pairs, self.places + places, self.seconds + seconds

    def begin_epoch(self) -> None:
        """Count from 0 again."""
        self.pairs, self.places, self.seconds = 0, 0, 0.0


class CheckpointFile:
    """The checkpoint of one run at a path."""

    def __init__(self, path: str | PathLike[str], identity: dict[str, Any]) -> None:
        refuse_unwritable(path)
        self.path = Path(path)
        self._identity = identity

    def save(self, run: Run, standing: Standing) -> None:
        """Write the run as it is now in place of what was written before."""
        tensors = _tensors(run) | {"generator": run.generator.get_state()}
        if standing.best is not None:
            tensors |= {"best_users": standing.best.user_table, "best_items": standing.best.item_table}
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "identity": self._identity,
            "pairs": standing.pairs,
            "places": standing.places,
            "seconds": standing.seconds,
            "history": standing.history.as_records(),
        }
        write_archive(
            self.path, {name: tensor.cpu().numpy() for name, tensor in tensors.items()}, manifest, compress=False
        )

    def load(self, run: Run) -> Standing:
        """Put the run into the state of the file, and return its position."""
        arrays, manifest = read_archive(self.path, FORMAT, VERSION, remedy="start anew")
        try:
            _refuse_other(self.path, manifest["identity"], self._identity)
            return _restore(run, arrays, manifest)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            if isinstance(error, SpherecError):
                raise
            raise DataError(f"{self.path} is damaged ({error}); start anew") from None


def _restore(run: Run, arrays: dict[str, NDArray[Any]], manifest: dict[str, Any]) -> Standing:
    """Put the run into the state of the arrays, and return its position."""
    for name, tensor in _tensors(run).items():
        tensor.copy_(_tensor(arrays[name]))
    run.generator.set_state(_tensor(arrays["generator"]))
    best = None
    if "best_users" in arrays:
        device = run.vectors.device
        users, items = (_tensor(arrays[name]).to(device) for name in ("best_users", "best_items"))
        best = DenseVectors(users, items, run.config.constraint)
    return Standing(
        pairs=manifest["pairs"],
        places=manifest["places"],
        seconds=manifest["seconds"],
        history=History.from_records(manifest["history"]),
        best=best,
    )


def fingerprint(
    data: Interactions, config: Training, initial: DenseVectors | None, device: torch.device, *, validated: bool
) -> dict[str, Any]:
    """Return what must be the same for a run to continue: all but its length, unless a schedule depends on that."""
    settings = config.to_dict()
    for name in ("patience", *(("epochs",) if config.optimizer.schedule == "constant" else ())):
        del settings[name]
    given = [] if initial is None else [rows.cpu().numpy() for rows in (initial.user_table, initial.item_table)]
    pairs = f"{len(data)} pairs, checksum {checksum(data.indptr, data.indices)}"
    return {
        **settings,
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


def _refuse_other(path: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    for name in wanted:
        if found.get(name) != wanted[name]:
            raise DataError(
                f"{path} is the checkpoint of another run: its {name} is {found.get(name)}, here it is {wanted[name]}; "
                "train with the same settings and data, or start anew"
            )
