"""`spherec presets`: ways to train, and all settings of one."""

from typing import Annotated, Literal

import typer
from rich.table import Table

from spherec.cli.display import note, show

PresetName = Literal[
    "accurate",
    "balanced",
    "niche",
    "two-stage",
    "two-stage-as-released",
    "two-stage-as-written",
    "uniform",
    "popularity",
]


def presets(
    name: Annotated[PresetName | None, typer.Argument(help="Print all settings of this one, as TOML.")] = None,
) -> None:
    """List the ways to train that have a name; with a name, print its settings.

    For example: spherec presets two-stage > run.toml, change a line, spherec train DATA --config run.toml -o my.spherec
    """
    from spherec.training.presets import PRESETS  # brings torch, which takes a while

    if name is not None:
        typer.echo(PRESETS[name].training.to_toml())
        return
    table = Table("preset", "loss", "sampler", "what it is")
    for known, preset in PRESETS.items():
        loss, sampler = (type(part).__name__ for part in (preset.training.loss, preset.training.sampler))
        table.add_row(known, loss, sampler, preset.what)
    show(table)
    note("spherec presets NAME prints all settings of one")
