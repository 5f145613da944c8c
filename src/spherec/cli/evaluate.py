"""`spherec evaluate`: score the lists of a model, or those of another program."""

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import typer

from spherec.cli._options import AsJson, Device, Dial, group, option
from spherec.cli._output import grid, note, show
from spherec.cli._source import Source, TableOptions
from spherec.data import splits
from spherec.data.container import kind_of
from spherec.data.input_files import refuse_unreadable
from spherec.data.interactions import Interactions
from spherec.data.read import read_events
from spherec.data.read.formats import Reading
from spherec.errors import DataError
from spherec.evaluation import METRICS, GivenLists, Scores, evaluate, evaluate_cold
from spherec.evaluation.metrics import format_metric, label_at
from spherec.recommender import load
from spherec.training import join


@group
class Parts(TableOptions):
    """Options that name the data and say how it is read."""

    train: list[str] = option("Data it was trained on. May be repeated.", "DATA", default=...)
    test: list[str] = option("Data that was held out, read alike. May be repeated.", "DATA", default=...)
    k: int = option("Length of the lists.", "N", "-k", default=50)
    rank_column: str = option("Column of ranks, in a table of lists; 1 is the best.", "NAME", default="rank")
    cold_items: bool = option("Score apart the items that nobody has in --train.", None, "--cold-items", default=False)

    def load(self) -> splits.Fold:
        """Load the two parts."""
        table = {field.name: getattr(self, field.name) for field in fields(TableOptions)}
        return splits.given(*Source(data=self.train, **table).load_parts(self.test))

    def load_lists(self, path: Path, train: Interactions) -> GivenLists:
        """Load the lists of another program."""
        reading = Reading(user=self.user_column, item=self.item_column, value=self.rank_column)
        return GivenLists.from_events(read_events(path, reading), train)


def evaluate_command(
    parts: Parts,
    model: Path = typer.Argument(
        ..., help="Model file from 'spherec train', or a table of user, item and rank from another program."
    ),
    mainstream: Dial = None,
    diversity: float = option("Distance of the items of a list from each other, 0 to 1.", "SHARE", default=0.0),
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Examples:

    - spherec train split/train.npz -o model.spherec
    - spherec evaluate model.spherec --train split/train.npz --test split/test.npz
    - torchrun --nproc-per-node 4 -m spherec evaluate model.spherec --train split/train.npz --test split/test.npz
    """
    crew, fold, k = join(device), parts.load(), parts.k
    refuse_unreadable(model)
    is_model = kind_of(model) is not None
    lister = load(model, device=device) if is_model else parts.load_lists(model, fold.train)
    options: Any = {"k": k, "mainstream": mainstream, "diversity": diversity, "crew": crew}
    if not parts.cold_items:
        scores = {"value": evaluate(lister, fold.train, fold.test, **options)}
    else:
        cold = np.flatnonzero(fold.train.users_per_item == 0)
        if not len(cold):
            raise DataError("somebody has each item in --train, so none is cold; split with --by cold-items")
        apart = splits.ColdFold(fold.train, fold.test, cold)
        scores = vars(evaluate_cold(lister, apart, **options))
    if crew.is_first and as_json:
        described = {name: _describe(each) for name, each in scores.items()}
        typer.echo(json.dumps({"k": k, **described.get("value", described)}))
    elif crew.is_first:
        _show(model.name, scores, k)
        if parts.cold_items:
            note(f"cold: only the {len(cold):,} cold items are ranked; warm: only the others; all: every item")


def _describe(scores: Scores) -> dict[str, float | int | None]:
    known = {name: None if np.isnan(value) else value for name, value in scores.summary().items()}  # JSON has no NaN
    return {**known, "users": len(scores.per_user.users), "users_without_test_items": scores.users_without}


def _show(name: str, parts: Mapping[str, Scores], k: int) -> None:
    """Print a table with a column of figures for each part, and what its averages leave out."""
    summaries = [scores.summary() for scores in parts.values()]
    users = [f"{len(scores.per_user.users):,}" for scores in parts.values()]
    rows = [
        [label_at(metric, k, explain=True), *(format_metric(metric, summary[metric.name]) for summary in summaries)]
        for metric in METRICS
    ]
    show(grid(["metric", *parts], [*rows, ["users", *users]], title=name))
    *_, whole = parts.values()
    if empty := int(np.isnan(whole.per_user.mmr).sum()):
        note(f"{empty:,} users have an empty list: they count with no hit, but not for popularity")
    if len(parts) == 1 and whole.users_without:
        note(f"{whole.users_without:,} users have nothing held out and are not counted")
