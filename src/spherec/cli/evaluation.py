"""What `spherec evaluate` does once its options are read."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import typer
from rich.table import Table

from spherec import artifact, datasets
from spherec.cli.display import note, show
from spherec.cli.source import Source
from spherec.data import splits
from spherec.data.files import is_archive
from spherec.data.interactions import Interactions
from spherec.data.reading import Columns, Reading
from spherec.data.splits import Fold
from spherec.device import DeviceName, resolve
from spherec.errors import DataError
from spherec.evaluation import METRICS, ItemLister, evaluate
from spherec.evaluation.foreign import Lists
from spherec.evaluation.metrics import label_at
from spherec.recommender.answers import Answers
from spherec.tensor_file import is_tensor_file


def run_evaluation(
    model: Path,
    train: str,
    test: str,
    *,
    k: int,
    columns: tuple[str, str, str],
    device: DeviceName,
    as_json: bool,
) -> None:
    """Score the model or the lists, and print what they come to."""
    user, item, rank = columns
    fold = splits.given(_load(train, user, item), _load(test, user, item))
    scores = evaluate(_ranker(model, fold, Columns(user, item, rank), resolve(device)), fold.train, fold.test, k=k)
    summary = scores.summary()
    counts = {"k": k, "users": len(scores.per_user.users), "users_without_test_items": scores.users_without}
    if as_json:
        known = {name: None if np.isnan(value) else value for name, value in summary.items()}  # JSON has no NaN
        typer.echo(json.dumps({**known, **counts}))
        return
    table = Table("metric", "", title=f"{model.name}: {counts['users']:,} users", title_justify="left")
    for metric in METRICS:
        table.add_row(label_at(metric, k, explain=True), f"{summary[metric.name]:.4f}")
    table.columns[1].justify = "right"
    show(table)
    empty = int(np.isnan(scores.per_user.median_popularity).sum())
    if empty:
        note(f"{empty:,} users have an empty list: they count with no hit, but not for popularity")
    if scores.users_without:
        note(f"{scores.users_without:,} users have nothing held out and are not counted")


def _load(data: str, user: str, item: str) -> Interactions:
    """The embedded data set or a prepared file; any other is a table with these columns."""
    is_table = data != datasets.BOOK_CROSSING.name and not is_archive(data)
    return (Source(data=data, user_column=user, item_column=item) if is_table else Source(data=data)).load(
        by_options=False
    )


def _ranker(path: Path, fold: Fold, columns: Columns, device: torch.device) -> ItemLister:
    """The model, or the lists in a table."""
    if not path.exists():
        raise DataError(f"{path} does not exist; give a model or a table of user, item, rank")
    if is_archive(path) or is_tensor_file(path):
        made = artifact.load(path)
        return Answers(replace(made, vectors=made.vectors.to(device))).ranker_for(fold.train, fold.test)
    from spherec.data.readers import read_events  # brings polars, which a machine that only trains may lack

    return Lists.from_events(read_events(path, Reading(columns=columns)), fold.train)
