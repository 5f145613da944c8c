"""`spherec data prepare`, `stats` and `head`: from raw files to interactions, and a look at either."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from spherec.cli.display import histogram_table, note, show, statistics_table, steps_table
from spherec.cli.names import IdColumn, NameColumn, NamesPath, load_with_names
from spherec.cli.source import CUT, Source, takes_source
from spherec.cli.split import split
from spherec.data.files import refuse_unwritable
from spherec.data.interactions import Interactions
from spherec.data.statistics import statistics
from spherec.errors import ArgumentError

app = typer.Typer(help="Prepare, describe, split and look at interactions.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


@app.command()
@takes_source
def prepare(
    source: Source,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write, e.g. movies.npz.")],
    names: NamesPath = None,
    names_id_column: IdColumn = "id",
    names_column: NameColumn = "name",
    compress: Annotated[bool, typer.Option("--compress", help="Smaller, but slower to load.")] = False,
    as_json: AsJson = False,
) -> None:
    """Read events, merge repeated pairs, cut, and write one file that everything else loads in no time.

    For example: spherec data prepare ratings.csv --user-column userId --item-column movieId --value-column rating
    --min-value 4 -o movies.npz
    """
    for given in (source.data, names):
        if given is not None and output.exists() and Path(given).exists() and output.samefile(given):
            raise ArgumentError(f"--output would replace {given}, which is read; name another file")
    refuse_unwritable(output)
    data = load_with_names(source, names, names_id_column, names_column, shows_steps=True)
    data.save(output, compress=compress)
    _describe(source, data, output=str(output), as_json=as_json)


@app.command()
@takes_source
def stats(source: Source, as_json: AsJson = False) -> None:
    """Count users, items and pairs, and show how they are spread."""
    data = source.load(shows_steps=True)
    _describe(source, data, output=None, as_json=as_json)
    if not as_json and len(data):
        show(
            histogram_table(data.items_per_user, "users", "items"),
            histogram_table(data.users_per_item, "items", "users"),
        )


@app.command()
@takes_source
def head(
    source: Source,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="How many.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Show the first events as they are understood, before anything is merged or cut. Reads no more than needed."""
    if given := [option for option in source.options_given(CUT) if option != "--preset"]:
        raise ArgumentError(f"head shows events before any cut; leave out {', '.join(given)}")
    columns = _first_events(source, rows)
    records = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    if as_json:
        typer.echo(json.dumps(records, default=str))
        return
    table = Table(*columns)
    for record in records:
        table.add_row(*map(_cell, record.values()))
    show(table)


app.command()(split)


def _describe(source: Source, data: Interactions, *, output: str | None, as_json: bool) -> None:
    """Steps and statistics, as tables or JSON."""
    numbers, paper = statistics(data), source.paper
    if as_json:
        described: dict[str, Any] = {"output": output} if output else {}
        described |= asdict(numbers) | {"steps": [asdict(step) for step in data.steps]}
        described |= {"paper": asdict(paper.paper)} if paper else {}
        typer.echo(json.dumps(described))
        return
    if data.steps:
        show(steps_table(data.steps))
    show(statistics_table(numbers, paper))
    if paper is not None:
        note(paper.note)
    if output is not None:
        note(f"written to {output}")


def _first_events(source: Source, rows: int) -> dict[str, list[Any]]:
    """The columns of the first events, by name."""
    prepared = source.prepared()
    events = source.first_events(rows) if prepared is None else prepared.events()
    users, items = events.users[:rows], events.items[:rows]
    columns: dict[str, list[Any]] = {"user": events.user_ids[users].tolist(), "item": events.item_ids[items].tolist()}
    if events.values is not None:
        columns["value"] = events.values[:rows].tolist()
    if events.times is not None:
        columns["time"] = events.times[:rows].tolist()
    if prepared is not None and prepared.item_names is not None:
        columns["name"] = [prepared.item_names[item] for item in items]
    return columns


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.15g}" if isinstance(value, float) else str(value)
