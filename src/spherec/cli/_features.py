"""`--item-features` on the command line: the options, and the files, which every command reads alike."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import get_args

from spherec.cli._options import group, option
from spherec.cli._output import note
from spherec.data.feature_columns import Kind
from spherec.data.features import Features
from spherec.data.ids import IdMap
from spherec.data.read import read_features
from spherec.data.read.item_tables import list_columns, read_content
from spherec.errors import ArgumentError, describe_missing_column, quote

_KINDS = ("id", *get_args(Kind))
_feature_option = partial(option, panel="Item features")


@group
class FeatureOptions:
    """Options for features of items."""

    item_features: list[Path] | None = _feature_option("Table or matrix of items. May be repeated.", "FILE")
    feature_kinds: list[str] | None = _feature_option(
        f"Kind of a column, by default guessed: {', '.join(_KINDS)}. May be repeated.", "COLUMN=KIND", "--feature-kind"
    )

    def read(self, item_ids: IdMap) -> Features | None:
        """Return the features in the files side by side, with ids written as these; notes say what gave no numbers."""
        if not self.item_features:
            return None
        chosen = [text.rpartition("=") for text in self.feature_kinds or []]  # column, "=", kind
        present = {path: list_columns(path) for path in self.item_features}
        everywhere = [name for columns in present.values() for name in columns]
        for name, sign, kind in chosen:
            if not name or kind not in _KINDS:
                text = quote(name + sign + kind)
                raise ArgumentError(f"--feature-kind needs COLUMN=KIND with one of {', '.join(_KINDS)}, got {text}")
            if name not in everywhere:
                raise ArgumentError(f"--feature-kind: {describe_missing_column(name, everywhere)}")
        parts = []
        for path, columns in present.items():
            item = next((name for name, _, kind in chosen if name in columns and kind == "id"), None)
            kinds = {name: kind for name, _, kind in chosen if name in columns and kind != "id"}
            parts.append(read_features(path, item=item, kinds=kinds or None).spell_ids(item_ids))  # type: ignore[arg-type]
        features = Features.join(*parts)
        note(f"features: {', '.join(f'{name} ({size})' for name, size in features.sizes.items())}")
        describe_left_out(features)
        return features


def read_new_features(files: Sequence[Path], known: Features) -> Features:
    """Return the features in files like those of training, in the same order, by the columns of `known`."""
    if len(files) != len(known.sources):
        wanted = "; ".join(f"{number}. {source.describe()}" for number, source in enumerate(known.sources, start=1))
        raise ArgumentError(
            f"the model learned from {len(known.sources)} sources of features, and these files have {len(files)}; "
            f"give, in this order: {wanted}"
        )
    parts = []
    for path, source in zip(files, known.sources, strict=True):
        content, ids = read_content(path, source.item if source.item in list_columns(path) else None)
        content = content if ids is None or source.item is None else content.rename({ids: source.item})
        parts.append(source.transform(content).spell_ids(known.item_ids))
    return Features.join(*parts)


def describe_left_out(features: Features) -> None:
    """Print what gave no numbers, and what is beyond those of training."""
    others = tuple(one for one in features.left_out if one not in features.unknown)
    for title, content in (("left out", others), ("not in training, so ignored or cut", features.unknown)):
        if content:
            note(f"{title}: {', '.join(f'{what} ({count:,})' for what, count in content)}")
