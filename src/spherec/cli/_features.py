"""`--item-features` on the command line: the options, and the files, which every command reads alike."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, get_args

import typer

from spherec.cli._output import note
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
        help="Table or matrix of items, which help with all of them and place new ones. May be repeated.",
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

    chosen: dict[str, Kind] = {}
    for text in kinds:
        name, _, kind = text.rpartition("=")
        if not name or kind not in get_args(Kind):
            raise ArgumentError(
                f"--feature-kind needs COLUMN=KIND with one of {', '.join(get_args(Kind))}, got {quote(text)}"
            )
        chosen[name] = kind  # type: ignore[assignment]
    parts = []
    for path, columns in _list_columns(files, {"--features-id-column": column, "--feature-kind": chosen}).items():
        own = {name: kind for name, kind in chosen.items() if name in columns}
        item = column if column in columns else None
        parts.append(read_features(path, item=item, kinds=own or None).spell_ids(item_ids))
    features = Features.join(*parts)
    note(f"features: {', '.join(f'{name} ({size})' for name, size in features.sizes.items())}")
    describe_left_out(features)
    return features


def read_new_features(files: Sequence[Path], column: str | None, known: Features) -> Features:
    """Return the features in files like those of training, in the same order, by the columns of `known`."""
    from spherec.data.read.item_tables import read_content

    if len(files) != len(known.sources):
        wanted = "; ".join(f"{number}. {source.describe()}" for number, source in enumerate(known.sources, start=1))
        raise ArgumentError(
            f"the model learned from {len(known.sources)} sources of features, and these files have {len(files)}; "
            f"give, in this order: {wanted}"
        )
    parts = []
    present = _list_columns(files, {"--features-id-column": column})
    for (path, columns), source in zip(present.items(), known.sources, strict=True):
        content, ids = read_content(path, column if column in columns else None)
        content = content if ids is None or source.item is None else content.rename({ids: source.item})
        parts.append(source.transform(content).spell_ids(known.item_ids))
    return Features.join(*parts)


def _list_columns(files: Sequence[Path], options: Mapping[str, str | Iterable[str] | None]) -> dict[Path, list[str]]:
    """Return the columns of each file, none for a matrix; an error if none has a column that an option names."""
    from spherec.data.read.item_tables import list_columns

    present = {path: list_columns(path) for path in files}
    everywhere = [name for columns in present.values() for name in columns]
    for option, names in options.items():
        for name in [names] if isinstance(names, str) else names or ():
            if name not in everywhere:
                raise ArgumentError(f"{option}: {describe_missing_column(name, everywhere)}")
    return present


def describe_left_out(features: Features) -> None:
    """Print what gave no numbers, and what is beyond those of training."""
    others = tuple(one for one in features.left_out if one not in features.unknown)
    for title, content in (("left out", others), ("not in training, so ignored or cut", features.unknown)):
        if content:
            note(f"{title}: {', '.join(f'{what} ({count:,})' for what, count in content)}")
