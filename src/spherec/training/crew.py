"""The crew of a run: this process alone, or several, of which `spherec.distributed` knows more."""

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed

from spherec import rng
from spherec.data import splits
from spherec.data.container import Arrays, read_container, write_container
from spherec.data.interactions import Interactions, as_interactions
from spherec.device import DeviceName, resolve
from spherec.embedding import Embedding, EmbeddingTable
from spherec.geometry import DenseVectors, Vectors
from spherec.ranking import ExactRanker, Ranking
from spherec.training.config import Training

CHECKPOINT_KIND = "spherec-checkpoint"
"""Kind of the file of a checkpoint."""

PRIVATE = 0o600
"""Permissions of a checkpoint: the model may be private."""


class Crew:
    """This process alone: nobody to agree with, everything is its own. A crew of several overrides all of this."""

    is_first = True
    "True in the process that prints and writes."
    size = 1
    has_shares = False
    "True where each process has a share of its own, which it can write: its shard of the model, its part of a file."

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def agree(self, *flags: bool) -> Sequence[bool]:
        """Return for each flag whether anybody has set it."""
        return flags

    def check_alike(self, facts: Mapping[str, Any]) -> None:
        """Raise an `ArgumentError` in all unless all have the same facts."""

    def add_up(self, numbers: Tensor, *, of: Interactions | None = None) -> Tensor:  # noqa: ARG002
        """Return the sum of what all have; with `of`, only where each has its own part of these data."""
        return numbers

    def gather(self, values: Any) -> Any:
        """Return the values of all users, of whom each has its own."""
        return values

    # What a run is made of

    def take(self, data: Any, **columns: Any) -> Interactions:
        """Return what is to be learned from, or the own part of it."""
        return as_interactions(data, **columns)

    def whole(self, data: Interactions) -> Interactions:
        """Return everything that a part was taken of."""
        return data

    def check_settings(self, config: Training, *, has_features: bool) -> None:
        """Raise an `ArgumentError` for settings that this crew cannot train with."""

    def generator(self, seed: int) -> torch.Generator:
        """Return the source of everything random in a step."""
        return rng.torch_stream(seed, "negatives", device=self.device)

    def hold(self, initial: DenseVectors | None, data: Interactions, config: Training) -> DenseVectors:
        """Return the own vectors of those to begin from, by default of the start among the settings."""
        if initial is None:
            return config.start.vectors(data, config.dim, config.subspaces, config.seed, self.device)
        return initial.to(self.device)

    def join_rows(self, table: EmbeddingTable, run: Any) -> Embedding:  # noqa: ARG002
        """Return the rows of all, of which the table has the own ones."""
        return table

    def batches(self, run: Any) -> Any:
        """Return the batches of the epochs of a run; None for those of one process."""

    def write_checkpoint(self, path: Path, collect: Callable[[], Arrays], facts: Mapping[str, Any]) -> None:
        """Write the checkpoint of a run, of which `collect` returns the arrays."""
        write_container(path, CHECKPOINT_KIND, collect(), facts, mode=PRIVATE)

    def read_checkpoint(self, path: Path, run: Any) -> tuple[Arrays, dict[str, Any]]:  # noqa: ARG002
        """Return the arrays of the own state of a run, and the facts."""
        return read_container(path, CHECKPOINT_KIND, remedy="start anew")

    def gather_vectors(self, vectors: DenseVectors, data: Interactions) -> DenseVectors:  # noqa: ARG002
        """Return all vectors in the first process; in others, the own ones."""
        return vectors

    def save_share(self, *given: Any) -> Any:
        """Write the own part of a model into a shard."""

    # What it is measured on

    def choose_share(self, data: Interactions, share: float, seed: int) -> NDArray[np.bool_]:
        """Return which pairs (E,) are a share of each user's, to be held out."""
        return splits.choose_share(data, share, seed)

    def rank(
        self, vectors: Vectors, users: NDArray[np.int64], k: int, without: Interactions
    ) -> tuple[NDArray[np.int64], Ranking]:
        """Return the users whose vectors are the own ones, and their k nearest items without those that they have."""
        return users, ExactRanker(vectors).top(users, k, without=without)

    def list_items(
        self, users: NDArray[np.int64], ask: Callable[[NDArray[np.int64]], NDArray[np.int64]]
    ) -> NDArray[np.int64]:
        """Return the lists (B, K) of all users; each process asks for those of an equal share of them."""
        return ask(users)


def join(device: DeviceName | torch.device = "auto", data: Any = None) -> Crew:
    """Return the crew of this process: several where torchrun, or the caller, has made a group of processes.

    Data that is divided into parts brings its own crew: also one process alone learns from it part by part.
    """
    where = resolve(device)
    is_grouped = distributed.is_available() and distributed.is_initialized()
    if not is_grouped and "TORCHELASTIC_RUN_ID" not in os.environ and not getattr(data, "is_divided", False):
        return Crew(where)
    crew: Crew = import_module("spherec.distributed.crew").join_processes(where)
    return crew
