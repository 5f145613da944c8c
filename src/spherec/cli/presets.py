"""`spherec presets`: list the presets for training, or print all settings of one."""

from typing import Annotated

import typer
from rich.table import Table

from spherec.cli._output import note, show


def presets_command(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Preset whose settings to print, as TOML. Default: list all presets."),
    ] = None,
) -> None:
    """List the presets for training; with a name, print all settings of that preset.

    To change a preset, print it to a file, edit a line, and train with the file:

    - spherec presets two-stage > run.toml
    - spherec train DATA --config run.toml -o my.spherec
    """
    from spherec.training.config import PRESETS, find_preset

    if name is not None:
        typer.echo(find_preset(name).to_toml())
        return
    table = Table("preset", "loss", "sampler", "description")
    for known, preset in PRESETS.items():
        loss, sampler = (type(part).__name__ for part in (preset.training.loss, preset.training.sampler))
        table.add_row(known, loss, sampler, preset.what)
    show(table)
    note("spherec presets NAME prints all settings of one")
