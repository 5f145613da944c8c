"""`spherec presets`: ways to train, and all settings of one."""

import json
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from spherec.cli.display import note, show

PresetName = Literal["two-stage", "two-stage-as-released", "two-stage-as-written", "uniform", "popularity", "softmin"]


def presets(
    name: Annotated[PresetName | None, typer.Argument(help="Print all settings of this one, as TOML.")] = None,
) -> None:
    """List the ways to train that have a name; with a name, print its settings.

    For example: spherec presets two-stage > run.toml, change a line, spherec train DATA --config run.toml -o my.spherec
    """
    from spherec.training.presets import PRESETS  # brings torch, which takes a while

    if name is not None:
        typer.echo(_as_toml(PRESETS[name].training.described()))
        return
    table = Table("preset", "loss", "sampler", "what it is")
    for known, preset in PRESETS.items():
        loss, sampler = (type(part).__name__ for part in (preset.training.loss, preset.training.sampler))
        table.add_row(known, loss, sampler, preset.what)
    show(table)
    note("spherec presets NAME prints all settings of one")


def _as_toml(described: dict[str, Any]) -> str:
    """Scalars first, then a table for each part; JSON writes numbers, strings and booleans as TOML does."""
    scalars = {name: value for name, value in described.items() if not isinstance(value, dict)}
    lines = [
        f"# {name} goes by the size of the data" if value is None else f"{name} = {json.dumps(value)}"
        for name, value in scalars.items()
    ]
    for name, part in described.items():
        if isinstance(part, dict):
            lines += ["", f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in part.items())]
    return "\n".join(lines)
