"""`spherec add-items`: add items that nobody has yet to a model, by their features; and reading of such files."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, get_args

import typer

from spherec.cli._output import AsJson, note, show
from spherec.cli._settings import Force, refuse_existing, refuse_overwriting
from spherec.data.feature_columns import Kind
from spherec.data.features import Features
from spherec.data.output_files import refuse_unwritable
from spherec.errors import ArgumentError, DataError, quote

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
        help="Column of item ids in such tables. By default recognised.",
        rich_help_panel=FEATURES,
    ),
]
FeatureKinds = Annotated[
    list[str] | None,
    typer.Option(
        "--feature-kind",
        metavar="COLUMN=KIND",
        help=f"Kind of a column of a table: {', '.join(get_args(Kind))}. By default guessed; may be repeated.",
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
    refuse_existing(output, force)
    loaded = CML.load(model)
    known = loaded.artifact.features
    if known is None:
        raise ArgumentError(f"{model} was trained without item features; train it again with --item-features")
    parts = known.split()
    if len(files) != len(parts):
        raise ArgumentError(f"{model} was trained with {len(parts)} files of features, got {len(files)}; give as many")
    new = Features.join(
        *(read_features(path, item=id_column, like=part) for path, part in zip(files, parts, strict=True))
    )
    fresh = [item for item in new.item_ids if item not in loaded.data.item_ids]
    if not fresh:
        raise DataError(f"the model has all {new.n_items:,} items of these files already; give new ones")
    loaded.add_items(new.align(fresh), names=None if names is None else read_names(names))
    loaded.save(output)
    counts = {"added": len(fresh), "known": new.n_items - len(fresh), "items": loaded.data.n_items}
    if as_json:
        typer.echo(json.dumps({"output": str(output), **counts, "left_out": dict(new.left_out)}))
        return
    show(f"{output} has {counts['items']:,} items, {counts['added']:,} of them new")
    if counts["known"]:
        note(f"{counts['known']:,} items of the files are in the model already, and stay as they are")
    describe_left_out(new)


def read_item_features(files: Sequence[Path], column: str | None, kinds: Sequence[str]) -> Features:
    """Return the features in these files side by side; notes say what gave no numbers."""
    from spherec.data.readers import read_features

    chosen: dict[str, Kind] = {}
    for text in kinds:
        name, equals, kind = text.rpartition("=")
        if not equals or kind not in get_args(Kind):
            raise ArgumentError(
                f"--feature-kind needs COLUMN=KIND with one of {', '.join(get_args(Kind))}, got {quote(text)}"
            )
        chosen[name] = kind  # type: ignore[assignment]
    features = Features.join(*(read_features(path, item=column, kinds=chosen or None) for path in files))
    note(f"features: {', '.join(f'{name} ({size})' for name, size in features.transformation.sizes.items())}")
    describe_left_out(features)
    return features


def describe_left_out(features: Features) -> None:
    """Print what gave no numbers."""
    if features.left_out:
        note(f"left out: {', '.join(f'{what} ({count:,})' for what, count in features.left_out)}")
