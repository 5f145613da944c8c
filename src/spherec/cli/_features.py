"""`--item-features` on the command line: the options, and the files, which every command reads alike."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, get_args

import typer

from spherec.cli._output import note
from spherec.data.archive import is_archive
from spherec.data.feature_columns import Kind
from spherec.data.features import Features
from spherec.data.ids import IdMap
from spherec.errors import ArgumentError, describe_missing_column, quote

FEATURES = "Item features"
FeatureFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--item-features",
        metavar="FILE",
        help="Table, words, tags or matrix of items, which help with all of them and place new ones. May be repeated.",
        rich_help_panel=FEATURES,
    ),
]
FeatureIdColumn = Annotated[
    str | None,
    typer.Option(
        "--features-id-column",
        metavar="NAME",
        help="Column of item ids in them, by default recognised.",
        rich_help_panel=FEATURES,
    ),
]
FeatureKinds = Annotated[
    list[str] | None,
    typer.Option(
        "--feature-kind",
        metavar="COLUMN=KIND",
        help=f"Kind of a column, by default guessed: {', '.join(get_args(Kind))}. May be repeated.",
        rich_help_panel=FEATURES,
    ),
]


def read_item_features(files: Sequence[Path], column: str | None, kinds: Sequence[str], item_ids: IdMap) -> Features:
    """Return the features in these files side by side, with ids written as these; notes say what gave no numbers."""
    from spherec.data.read import read_features
    from spherec.data.read.item_features import list_columns

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
        parts.append(read_features(path, item=item, kinds=own or None).spell_ids(item_ids))
    features = Features.join(*parts)
    note(f"features: {', '.join(f'{name} ({size})' for name, size in features.transformation.sizes.items())}")
    describe_left_out(features)
    return features


def read_new_features(files: Sequence[Path], column: str | None, known: Features) -> Features:
    """Return the features in files like those of training, in the same order, by the transformation of `known`.

    A file that `Features.save` wrote stands for all sources that were joined in it.
    """
    from spherec.data.read import read_features

    saved = {path: Features.load(path) for path in files if is_archive(path)}
    counts = [len(saved[path].transformation.sources) if path in saved else 1 for path in files]
    sources = known.transformation.sources
    if sum(counts) != len(sources):
        wanted = "; ".join(f"{number}. {source.describe()}" for number, source in enumerate(sources, start=1))
        raise ArgumentError(
            f"the model learned from {len(sources)} sources of features, and these files have {sum(counts)}; give, in "
            f"this order: {wanted}"
        )
    like, parts = iter(known.split()), []
    for path, item, count in zip(files, _find_id_columns(files, column), counts, strict=True):
        first, *_ = islice(like, count)
        features = saved[path] if path in saved else read_features(path, item=item, like=first)
        parts.append(features.spell_ids(known.item_ids))
    return Features.join(*parts)


def _find_id_columns(files: Sequence[Path], column: str | None) -> list[str | None]:
    """Return the column of ids for each file: this one where a table has it, else None, to be recognised."""
    from spherec.data.read.item_features import list_columns

    if column is None:
        return [None] * len(files)
    present = [list_columns(path) for path in files]
    if not any(column in columns for columns in present):
        everywhere = [name for columns in present for name in columns]
        raise ArgumentError(f"--features-id-column: {describe_missing_column(column, everywhere)}")
    return [column if column in columns else None for columns in present]


def describe_left_out(features: Features) -> None:
    """Print what gave no numbers, and what is beyond those of training."""
    others = tuple(one for one in features.left_out if one not in features.unknown)
    for title, content in (("left out", others), ("not in training, so ignored or cut", features.unknown)):
        if content:
            note(f"{title}: {', '.join(f'{what} ({count:,})' for what, count in content)}")
