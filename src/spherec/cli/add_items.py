"""`spherec add-items`: add items that nobody has yet to a model, by their features; and reading of such files."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, get_args

import numpy as np
import typer

from spherec.cli._output import AsJson, note, show
from spherec.cli._settings import Force, refuse_existing, refuse_overwriting
from spherec.data.feature_columns import Kind
from spherec.data.features import Features
from spherec.data.output_files import lock_output, refuse_unwritable
from spherec.errors import ArgumentError, DataError, describe_missing_column, enumerate_ids, quote

FEATURES = "Item features"
FeatureFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--item-features",
        metavar="FILE",
        help="Table of items (CSV, JSON lines, Parquet), their words or tags (CiteULike's mult.dat, tag-item.dat), a "
        "matrix (.npy, .npz of scipy), or a file that Features.save wrote. Features help with all items, and place "
        "those that nobody has. May be repeated.",
        rich_help_panel=FEATURES,
    ),
]
FeatureIdColumn = Annotated[
    str | None,
    typer.Option(
        "--item-features-id-column",
        help="Column of item ids, in those tables that have it. By default recognised.",
        rich_help_panel=FEATURES,
    ),
]
FeatureKinds = Annotated[
    list[str] | None,
    typer.Option(
        "--feature-kind",
        metavar="COLUMN=KIND",
        help=f"Kind of a column, in those tables that have it: {', '.join(get_args(Kind))}. By default guessed; may be "
        "repeated.",
        rich_help_panel=FEATURES,
    ),
]


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
    from spherec.data.readers import read_features, read_names
    from spherec.recommender import CML

    refuse_overwriting({"--output": output}, (*files, names))
    refuse_unwritable(output)
    with lock_output(output):
        refuse_existing(output, force)
        loaded = CML.load(model)
        known = loaded.artifact.features
        if known is None:
            raise ArgumentError(f"{model} was trained without item features; train it again with --item-features")
        parts = known.split()
        if len(files) != len(parts):
            raise ArgumentError(
                f"{model} was trained with {len(parts)} files of features, got {len(files)}; give as many"
            )
        columns = _find_id_columns(files, id_column)
        read = zip(files, columns, parts, strict=True)
        new = Features.join(*(read_features(path, item=column, like=part) for path, column, part in read))
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


def read_item_features(files: Sequence[Path], column: str | None, kinds: Sequence[str]) -> Features:
    """Return the features in these files side by side; notes say what gave no numbers."""
    from spherec.data.readers import read_features
    from spherec.data.readers.item_features import list_columns

    chosen: dict[str, Kind] = {}
    for text in kinds:
        name, equals, kind = text.rpartition("=")
        if not equals or kind not in get_args(Kind):
            raise ArgumentError(
                f"--feature-kind needs COLUMN=KIND with one of {', '.join(get_args(Kind))}, got {quote(text)}"
            )
        chosen[name] = kind  # type: ignore[assignment]
    parts = []
    ids = _find_id_columns(files, column)
    present = [list_columns(path) for path in files]
    absent = next((name for name in chosen if not any(name in columns for columns in present)), None)
    if absent is not None:
        everywhere = [name for columns in present for name in columns]
        raise ArgumentError(f"--feature-kind: {describe_missing_column(absent, everywhere)}")
    for path, item, columns in zip(files, ids, present, strict=True):
        own = {name: kind for name, kind in chosen.items() if name in columns}
        parts.append(read_features(path, item=item, kinds=own or None))
    features = Features.join(*parts)
    note(f"features: {', '.join(f'{name} ({size})' for name, size in features.transformation.sizes.items())}")
    describe_left_out(features)
    return features


def _find_id_columns(files: Sequence[Path], column: str | None) -> list[str | None]:
    """Return the column of ids for each file: this one where a table has it, else None, to be recognised."""
    from spherec.data.readers.item_features import list_columns

    if column is None:
        return [None] * len(files)
    present = [list_columns(path) for path in files]
    if not any(column in columns for columns in present):
        everywhere = [name for columns in present for name in columns]
        raise ArgumentError(f"--item-features-id-column: {describe_missing_column(column, everywhere)}")
    return [column if column in columns else None for columns in present]


def describe_left_out(features: Features) -> None:
    """Print what gave no numbers."""
    if features.left_out:
        note(f"left out: {', '.join(f'{what} ({count:,})' for what, count in features.left_out)}")
