"""`spherec evaluate`: score the lists of a model, or those of another program."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from spherec.cli._output import AsJson, grid, note, show
from spherec.cli._settings import Device, Dial
from spherec.cli._source import TableOptions, takes_source
from spherec.data import splits
from spherec.data.container import kind_of
from spherec.data.input_files import find_kind, refuse_unreadable
from spherec.data.interactions import Interactions
from spherec.data.read import read_events
from spherec.data.read.formats import Reading
from spherec.errors import DataError

if TYPE_CHECKING:
    from spherec.device import DeviceName
    from spherec.evaluation import GivenLists, Scores
    from spherec.recommender.trained_model import TrainedModel


@takes_source
def evaluate_command(
    model: Annotated[
        Path,
        typer.Argument(help="Model file from 'spherec train', or a table of user, item and rank from another program."),
    ],
    train: Annotated[list[str], typer.Option(metavar="DATA", help="Data it was trained on. May be repeated.")],
    test: Annotated[
        list[str], typer.Option(metavar="DATA", help="Data that was held out, read alike. May be repeated.")
    ],
    k: Annotated[int, typer.Option("-k", help="Length of the lists.")] = 50,
    rank_column: Annotated[str, typer.Option(help="Column of ranks, in a table of lists; 1 is the best.")] = "rank",
    cold_items: Annotated[
        bool,
        typer.Option(
            "--cold-items",
            help="Score apart the items that nobody has in --train.",
        ),
    ] = False,
    mainstream: Dial = None,
    device: Device = "auto",
    as_json: AsJson = False,
    *,
    options: TableOptions,
) -> None:
    """Rank all items for every user who has test items, leave out training items, and score the lists.

    For example:

    - spherec data split movies.npz --by ratio -o split
    - spherec train split/train.npz -o model.spherec
    - spherec evaluate model.spherec --train split/train.npz --test split/test.npz
    - torchrun --nproc-per-node 4 -m spherec evaluate model.spherec --train split/train.npz --test split/test.npz
    """
    from spherec.evaluation import evaluate, evaluate_cold
    from spherec.training import join

    crew = join(device)
    has_lists = find_kind(model) == "file" and kind_of(model) is None
    fold = splits.given(*options.of(train).load_parts(test, has_lists=has_lists))
    lists = Reading(user=options.user_column, item=options.item_column, value=rank_column)
    lister = _load_model(model, fold.train, lists, device)
    if cold_items:
        cold = np.flatnonzero(fold.train.users_per_item == 0)
        if not len(cold):
            raise DataError("somebody has each item in --train, so none is cold; split with --by cold-items")
        apart = splits.ColdFold(fold.train, fold.test, cold)
        three = evaluate_cold(lister, apart, k=k, mainstream=mainstream, crew=crew)
        parts = {"cold": three.cold, "warm": three.warm, "all": three.all}
    else:
        parts = {"value": evaluate(lister, fold.train, fold.test, k=k, mainstream=mainstream, crew=crew)}
    if not crew.is_first:
        return
    if as_json:
        described = {name: _to_json(scores, is_part=cold_items) for name, scores in parts.items()}
        typer.echo(json.dumps({"k": k, **(described if cold_items else described["value"])}))
        return
    _show(model.name, parts, k)
    if cold_items:
        note(f"cold: only the {len(cold):,} cold items are ranked; warm: only the others; all: every item")
    empty = int(np.isnan(parts["all" if cold_items else "value"].per_user.mmr).sum())
    if empty:
        note(f"{empty:,} users have an empty list: they count with no hit, but not for popularity")
    if not cold_items and (without := parts["value"].users_without):
        note(f"{without:,} users have nothing held out and are not counted")


def _to_json(scores: "Scores", *, is_part: bool) -> dict[str, float | int | None]:
    known = {name: None if np.isnan(value) else value for name, value in scores.summary().items()}  # JSON has no NaN
    counts = {"users": len(scores.per_user.users)}
    return {**known, **counts, **({} if is_part else {"users_without_test_items": scores.users_without})}


def _show(name: str, parts: "Mapping[str, Scores]", k: int) -> None:
    """Print a table with a column of figures for each part."""
    from spherec.evaluation import METRICS
    from spherec.evaluation.metrics import format_metric, label_at

    summaries = [scores.summary() for scores in parts.values()]
    users = [f"{len(scores.per_user.users):,}" for scores in parts.values()]
    rows = [
        [label_at(metric, k, explain=True), *(format_metric(metric, summary[metric.name]) for summary in summaries)]
        for metric in METRICS
    ]
    show(grid(["metric", *parts], [*rows, ["users", *users]], title=name))


def _load_model(path: Path, train: Interactions, lists: Reading, device: "DeviceName") -> "TrainedModel | GivenLists":
    """Load the model, to rank on this device, or the lists in a table."""
    from spherec.artifact import Artifact
    from spherec.device import resolve
    from spherec.evaluation import GivenLists
    from spherec.recommender.trained_model import ModelState, TrainedModel

    if find_kind(path) == "nothing":
        raise DataError(f"{path} does not exist; give a model or a table of user, item, rank")
    refuse_unreadable(path)
    if kind_of(path) is not None:
        content = Artifact.load(path)
        return TrainedModel(ModelState(replace(content, vectors=content.vectors.to(resolve(device)))))
    return GivenLists.from_events(read_events(path, lists), train)
