"""`spherec presets`: list the presets for training, or print all settings of one."""

import typer
from rich.table import Table

from spherec.cli._output import note, show
from spherec.training.config import PRESETS, find_preset


def presets_command(
    name: str | None = typer.Argument(
        None, metavar="NAME", help="Preset whose settings to print, as TOML. Default: list all presets."
    ),
) -> None:
    """Print a preset to a file, edit a line, and train with the file, to change it:

    - spherec presets two-stage > run.toml
    - spherec train DATA --config run.toml -o my.spherec
    """
    if name is not None:
        typer.echo(find_preset(name).to_toml())
        return
    table = Table("preset", "loss", "sampler", "description")
    for known, preset in PRESETS.items():
        loss, sampler = (type(part).__name__ for part in (preset.training.loss, preset.training.sampler))
        table.add_row(known, loss, sampler, preset.what)
    show(table)
    note("spherec presets NAME prints all settings of one")
