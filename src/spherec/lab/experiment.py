"""Definition of an experiment: rows of settings, each run on every fold of a data set."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources
from itertools import product
from typing import Any

from spherec.errors import ArgumentError, quote
from spherec.lab.settings import apply_settings
from spherec.sampling import Popularity, TwoStage, Uniform
from spherec.training import Training
from spherec.training.config import overlay

PAPER_SETTINGS: Mapping[str, Training] = {
    "uniform": Training(sampler=Uniform(negatives=5), batch_size=4096),
    "popularity": Training(sampler=Popularity(negatives=5)),
    "two-stage": Training(),
    "two-stage-as-released": Training(sampler=TwoStage.as_released()),
    "two-stage-as-written": Training(sampler=TwoStage.as_written()),
}
"""Settings that the rows of an experiment begin from.

Uniform negatives in large batches and sampling by popularity are the paper's baselines. Two-stage sampling is on live
vectors, tuned; as in the paper's public code, on the initial vectors; and as in the paper's text, where training
collapses.
"""


@dataclass(frozen=True)
class Row:
    """One row of a table: a name, and how its models are trained."""

    name: str
    training: Training
    grid: tuple[Training, ...] = ()
    "Configs to choose from on each fold, in place of `training`."
    mmr_at_most: float | None = None
    "Upper limit on validation MMR; configs above it are chosen only if all are."

    @property
    def choices(self) -> tuple[Training, ...]:
        """The configs to choose from on the validation part."""
        return self.grid or (self.training,)


@dataclass(frozen=True)
class Experiment:
    """Rows that are trained and tested on the folds of a cross-validation.

    On each fold the number of epochs, and the config of a row that has several, are chosen on a validation part of the
    training data. Then a model is trained for that long on all training data and tested on the fold: the test pairs are
    read once, at the very end.
    """

    name: str
    rows: tuple[Row, ...]
    folds: int = 4
    "Number of parts that each user's items are dealt over."
    seed: int = 0
    "Seed of the split."
    k: int = 50
    "Length of the lists."
    validation: float = 0.05
    "Share of each user's training items that choices are made on."

    def __post_init__(self) -> None:
        check_counts(self, folds=2, seed=0, k=1)
        check_validation(self.validation)
        names = [row.name for row in self.rows]
        if len(set(names)) != len(names):
            raise ArgumentError(f"two rows of {self.name} have the same name; rows: {', '.join(names)}")

    def only(self, names: list[str]) -> "Experiment":
        """Return the same experiment with only the rows of these names."""
        unknown = [name for name in names if name not in {row.name for row in self.rows}]
        if unknown:
            known = ", ".join(row.name for row in self.rows)
            raise ArgumentError(f"{self.name} has no row {', '.join(unknown)}; it has {known}")
        rest = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "rows"}
        return Experiment(rows=tuple(row for row in self.rows if row.name in names), **rest)

    @classmethod
    def from_toml(cls, text: str) -> "Experiment":
        """Read a table with `name`, `folds`, `seed`, `k`, `validation`, and `[[rows]]`.

        A row has a `name`, a `preset` to begin from, and settings as `spherec train` takes them; those of `[all]` hold
        for every row. It may have a `grid`, such as { "sampler.beta" = [0.7, 0.8] }, and with it `mmr_at_most`.
        """
        try:
            content = tomllib.loads(text)
            common = content.pop("all", {})
            rows = tuple(_read_row(overlay(common, table)) for table in content.pop("rows", []))
        except (tomllib.TOMLDecodeError, TypeError, AttributeError) as error:
            raise ArgumentError(f"this is no experiment in TOML: {error}") from None
        if content.keys() - {field.name for field in fields(cls)} or "name" not in content or not rows:
            raise ArgumentError(
                "an experiment needs a name and [[rows]], and may have folds, seed, k and validation; "
                f"got {', '.join(sorted(content)) or 'nothing'}"
            )
        return cls(rows=rows, **content)

    @classmethod
    def embedded(cls, name: str) -> "Experiment":
        """Return one that ships with the package: "book-crossing", "amazon-movies", "echonest", "two-stage"."""
        file = resources.files("spherec.lab") / f"{name}.toml"
        if not file.is_file():
            raise ArgumentError(f"there is no experiment called {quote(name)}; write one in TOML and use from_toml")
        return cls.from_toml(file.read_text(encoding="utf-8"))


def check_counts(owner: object, **least: int) -> None:
    """Raise an error unless each of these attributes is a whole number, at least as large as given."""
    for name, smallest in least.items():
        value = getattr(owner, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
            raise ArgumentError(f"{name} must be a whole number >= {smallest}, got {quote(value)}")


def check_validation(share: object) -> None:
    """Raise an error unless the share is a float between 0 and 1, both excluded."""
    if not isinstance(share, float) or not 0 < share < 1:
        raise ArgumentError(f"validation must be a share between 0 and 1, got {quote(share)}")


def _read_row(content: Mapping[str, Any]) -> Row:
    settings = dict(content)
    name, preset = settings.pop("name", None), settings.pop("preset", "two-stage")
    if not isinstance(name, str) or not isinstance(preset, str) or preset not in PAPER_SETTINGS:
        raise ArgumentError(
            f"a row needs a name, and a preset of {', '.join(PAPER_SETTINGS)}; got {quote(name)} and {quote(preset)}"
        )
    grid, mmr_at_most = settings.pop("grid", {}), settings.pop("mmr_at_most", None)
    training = PAPER_SETTINGS[preset].change(settings)
    combinations = product(*grid.values()) if grid else ()
    choices = (apply_settings(training, dict(zip(grid, values, strict=True))) for values in combinations)
    return Row(name, training, tuple(choices), mmr_at_most)
