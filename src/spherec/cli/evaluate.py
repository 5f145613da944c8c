"""`spherec evaluate`: score the lists of a model, or those of another program."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import typer

from spherec.artifact import Artifact
from spherec.cli._options import AsJson, Device, Dial, option
from spherec.cli._output import grid, note, show
from spherec.cli._source import Source, TableOptions
from spherec.data import splits
from spherec.data.container import kind_of
from spherec.data.input_files import refuse_unreadable
from spherec.data.read import read_events
from spherec.data.read.formats import Reading
from spherec.device import resolve
from spherec.errors import DataError
from spherec.evaluation import METRICS, GivenLists, Scores, evaluate, evaluate_cold
from spherec.evaluation.metrics import format_metric, label_at
from spherec.recommender.trained_model import ModelState, TrainedModel
from spherec.training import join


def evaluate_command(
    model: Path = typer.Argument(
        ..., help="Model file from 'spherec train', or a table of user, item and rank from another program."
    ),
    train: list[str] = option("Data it was trained on. May be repeated.", "DATA", default=...),
    test: list[str] = option("Data that was held out, read alike. May be repeated.", "DATA", default=...),
    k: int = option("Length of the lists.", "N", "-k", default=50),
    rank_column: str = option("Column of ranks, in a table of lists; 1 is the best.", "NAME", default="rank"),
    cold_items: bool = option("Score apart the items that nobody has in --train.", None, "--cold-items", default=False),
    mainstream: Dial = None,
    device: Device = "auto",
    as_json: AsJson = False,
    *,
    options: TableOptions,
) -> None:
    """Examples:

    - spherec train split/train.npz -o model.spherec
    - spherec evaluate model.spherec --train split/train.npz --test split/test.npz
    - torchrun --nproc-per-node 4 -m spherec evaluate model.spherec --train split/train.npz --test split/test.npz
    """
    crew = join(device)
    fold = splits.given(*Source(data=train, **vars(options)).load_parts(test))
    lists = Reading(user=options.user_column, item=options.item_column, value=rank_column)
    lister = _load_model(model, resolve(device)) or GivenLists.from_events(read_events(model, lists), fold.train)
    cold = np.flatnonzero(fold.train.users_per_item == 0)
    if not cold_items:
        parts = {"value": evaluate(lister, fold.train, fold.test, k=k, mainstream=mainstream, crew=crew)}
    elif not len(cold):
        raise DataError("somebody has each item in --train, so none is cold; split with --by cold-items")
    else:
        apart = splits.ColdFold(fold.train, fold.test, cold)
        parts = vars(evaluate_cold(lister, apart, k=k, mainstream=mainstream, crew=crew))
    if crew.is_first and as_json:
        described = {name: _describe(scores) for name, scores in parts.items()}
        typer.echo(json.dumps({"k": k, **(described if cold_items else described["value"])}))
    elif crew.is_first:
        _show(model.name, parts, k)
        if cold_items:
            note(f"cold: only the {len(cold):,} cold items are ranked; warm: only the others; all: every item")


def _load_model(path: Path, device: torch.device) -> TrainedModel | None:
    """Load the model, to rank on this device; None for a table of lists."""
    refuse_unreadable(path)
    if kind_of(path) is None:
        return None
    content = Artifact.load(path)
    return TrainedModel(ModelState(replace(content, vectors=content.vectors.to(device))))


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
