"""`spherec add-items`: add items that nobody has yet to a model, by their features."""

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from spherec.cli._features import FeatureIdColumn, describe_left_out, read_new_features
from spherec.cli._output import AsJson, note, show
from spherec.cli._settings import Force, refuse_existing
from spherec.data.output_files import lock_output, refuse_unwritable
from spherec.errors import ArgumentError, DataError, enumerate_ids


def add_items_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file, trained with --item-features.")],
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", help="Features of the new items: files like those of training, as many, in the same order."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write, e.g. books.spherec.")],
    id_column: FeatureIdColumn = None,
    names: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Table of item names, as in 'spherec train --names'.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Add items that nobody has yet, placed by their features, without training.

    Items that the model has already are left as they are.

    For example:

    - spherec train plays.csv --item-features songs.csv -o music.spherec
    - spherec add-items music.spherec new-songs.csv -o music.spherec --force
    """
    from spherec.data.read import read_names
    from spherec.recommender import CML

    refuse_unwritable(output)
    with lock_output(output):
        refuse_existing(output, force)
        loaded = CML.load(model)
        known = loaded.artifact.features
        if known is None:
            raise ArgumentError(f"{model} was trained without item features; train it again with --item-features")
        new = read_new_features(files, id_column, known)
        is_new = loaded.data.item_ids.find(new.item_ids) < 0  # (n,)
        fresh = [new.item_ids[int(at)] for at in np.flatnonzero(is_new & new.known)]
        blank = [new.item_ids[int(at)] for at in np.flatnonzero(is_new & ~new.known)]
        if not is_new.any():
            raise DataError(f"the model has all {new.n_items:,} items of these files already; give new ones")
        if not fresh:
            raise DataError(
                f"no new item can be placed, because none has features: {enumerate_ids(blank)}; describe them"
            )
        loaded.add_items(new.align(fresh), names=None if names is None else read_names(names))
        loaded.save(output)
    counts = {"added": len(fresh), "known": int((~is_new).sum()), "blank": len(blank), "items": loaded.data.n_items}
    if as_json:
        typer.echo(json.dumps({"output": str(output), **counts, "left_out": dict(new.left_out)}))
        return
    show(f"{output} has {counts['items']:,} items, {counts['added']:,} of them new")
    if counts["known"]:
        note(f"{counts['known']:,} items of the files are in the model already, and stay as they are")
    if blank:
        note(f"{len(blank):,} new items have no features, and are left out: {enumerate_ids(blank)}")
    describe_left_out(new)
