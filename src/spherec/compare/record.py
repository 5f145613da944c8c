"""What a comparison leaves on disk: a line for each trial, a line for each test, and every user's values."""

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherec.data.files import atomic_write
from spherec.errors import DataError
from spherec.evaluation import PerUser
from spherec.experiments.json_lines import JsonLines

KEPT = ("ap", "ndcg", "recall", "median_popularity")
"""The metrics of which every user's value is kept."""


@dataclass(frozen=True)
class Trial:
    """A model with some settings, on the validation part of a fold."""

    model: str
    fold: int
    identity: dict[str, Any]
    "All else that decides the result: the data, the split, the model's fixed settings."
    settings: dict[str, Any]
    refit: dict[str, Any]
    "The settings to fit it with again: the same, with the epochs where early stopping chose them."
    scores: dict[str, float]
    "On the validation part, by the names of `Scores.summary`."
    seconds: float
    environment: dict[str, str]
    failed: str = ""
    "Why it could not be fit, where it could not."

    @property
    def key(self) -> str:
        """What makes two trials the same."""
        return json.dumps([self.model, self.fold, self.identity, self.settings], sort_keys=True)


@dataclass(frozen=True)
class Result:
    """A model on a fold: fit on all of its training part with the settings that were best, tested once."""

    model: str
    is_ours: bool
    fold: int
    identity: dict[str, Any]
    "All that decides the result: that of the trials, how many, and what was searched."
    settings: dict[str, Any]
    "Chosen on the validation part."
    trials: list[dict[str, Any]]
    "All that were tried: settings, and scores on the validation part."
    scores: dict[str, float]
    "On the test part, by the names of `Scores.summary`."
    fit_seconds: float
    "Of the last fit alone."
    peak_mb: float | None
    "By how much memory grew during it, at most; None where the system does not tell."
    peak_of: str
    "Which memory that is."
    choosing_seconds: float
    "Of all trials together."
    environment: dict[str, str]
    "Commit, device and versions."

    @property
    def key(self) -> str:
        """What makes two results the same."""
        return json.dumps([self.model, self.fold, self.identity], sort_keys=True)


@dataclass(frozen=True)
class Folder:
    """Where a comparison is kept."""

    path: Path

    def make(self) -> None:
        """Make it, where there is none."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"cannot make the folder {self.path} ({error.strerror}); choose another") from None

    @property
    def results(self) -> JsonLines[Result]:
        """One line for each model and fold."""
        return JsonLines(self.path / "records.jsonl", Result)

    @property
    def trials(self) -> JsonLines[Trial]:
        """One line for each trial."""
        return JsonLines(self.path / "trials.jsonl", Trial)

    def save_users(self, result: Result, per_user: PerUser) -> None:
        """Keep every user's values."""
        arrays = {name: getattr(per_user, name).astype(np.float32) for name in KEPT}
        with atomic_write(self._users_path(result)) as file:
            np.savez_compressed(file, users=per_user.users, **arrays)

    def load_users(self, result: Result) -> dict[str, NDArray[Any]] | None:
        """Every user's values; None where they are absent."""
        path = self._users_path(result)
        if not path.exists():
            return None
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in ("users", *KEPT)}

    def _users_path(self, result: Result) -> Path:
        key = zlib.crc32(result.key.encode())  # one folder may hold several studies
        return self.path / f"{result.model}-{result.fold}-{key:08x}.npz"
