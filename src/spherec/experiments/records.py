"""What runs gave, one line of JSON each: written when a run ends, read to skip what is done."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spherec.experiments.json_lines import JsonLines


@dataclass(frozen=True)
class Record:
    """One row on one fold."""

    experiment: str
    row: str
    fold: int
    identity: dict[str, Any]
    "All that decides the result: the configs to choose from, the data, the split."
    epochs: int
    "Chosen on the validation part."
    training: dict[str, Any]
    "The config, chosen on the validation part where there were several."
    tried: list[dict[str, Any]]
    "Of each config to choose from: the epochs that were best for it, and its scores on the validation part."
    scores: dict[str, float]
    "On the test fold, by the names of `Scores.summary`."
    curve: list[dict[str, Any]]
    "The epochs at which the validation part was looked at, of the run that was chosen."
    seconds: dict[str, float]
    "Spent in choosing, training, testing."
    environment: dict[str, str]
    "Where it ran: commit, device, versions."
    digest: str = ""
    "Checksum of the vectors."

    @property
    def key(self) -> str:
        """What makes two records the same run."""
        return json.dumps([self.experiment, self.row, self.fold, self.identity], sort_keys=True)


class Records(JsonLines[Record]):
    """The records of an experiment."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, Record)
