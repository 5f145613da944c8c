"""`spherec add-items`: add items that nobody has yet to a model, by their features."""

from pathlib import Path

import numpy as np
import typer

from spherec.cli._features import describe_left_out, read_new_features
from spherec.cli._options import option
from spherec.cli._output import note, show
from spherec.cli.update import ChangedModel
from spherec.data.read import read_names
from spherec.errors import ArgumentError, DataError, enumerate_ids


def add_items_command(
    model: Path = typer.Argument(..., metavar="MODEL", help="Model file, trained with --item-features."),
    files: list[Path] = typer.Argument(
        ..., metavar="FILE", help="Features of the new items: files like those of training, as many, in the same order."
    ),
    names: Path | None = option("Table of item names.", "FILE"),
    *,
    changed: ChangedModel,
) -> None:
    """Items that the model has already are left as they are. Examples:

    - spherec train plays.csv --item-features songs.csv -o music.spherec
    - spherec add-items music.spherec new-songs.csv -o music.spherec --force
    """
    with changed.open(model) as loaded:
        known = loaded.artifact.features
        if known is None:
            raise ArgumentError(f"{model} was trained without item features; train it again with --item-features")
        new = read_new_features(files, known)
        is_new = loaded.data.item_ids.find(new.item_ids) < 0  # (n,)
        fresh, blank = (
            [new.item_ids[int(at)] for at in np.flatnonzero(is_new & some)] for some in (new.known, ~new.known)
        )
        if not fresh:
            why = f"no new item of these files has features: {enumerate_ids(blank)}; describe them"
            raise DataError(why if blank else f"the model has all {new.n_items:,} items of these files already")
        loaded.add_items(new.align(fresh), names=None if names is None else read_names(names))
    show(f"{len(fresh):,} new items")
    if known_already := int((~is_new).sum()):
        note(f"{known_already:,} items of the files are in the model already, and stay as they are")
    if blank:
        note(f"{len(blank):,} new items have no features, and are left out: {enumerate_ids(blank)}")
    describe_left_out(new)
