"""What `spherec export` does once its options are read."""

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from spherec import artifact
from spherec.cli.display import note
from spherec.data.files import refuse_unwritable
from spherec.errors import ArgumentError
from spherec.export import Format, What, format_of, write
from spherec.export import Progress as ProgressCallback

_NEAREST = {
    "sphere": "nearest by cosine, dot product or Euclidean distance: on the sphere they agree",
    "ball": "nearest by Euclidean distance, not by cosine or dot product: the model lives in the ball",
}


def run_export(model: Path, output: Path, *, format: Format | None, what: What, names: bool, as_json: bool) -> None:
    """Write the file, and say what is in it."""
    chosen = format or format_of(output)
    if output.exists() and model.exists() and output.samefile(model):
        raise ArgumentError(f"--output would replace {model}, which is read; name another file")
    refuse_unwritable(output)
    loaded = artifact.load(model)
    with _rows_bar(f"writing {output.name}") as progress:
        write(output, loaded.vectors, loaded.data, format=chosen, what=what, names=names, progress=progress)
    counts = {"items": loaded.data.n_items, "users": loaded.data.n_users}
    written = {kind: count for kind, count in counts.items() if what in ("both", kind)}
    dim, constraint = loaded.vectors.item_table.shape[1], loaded.vectors.constraint
    if as_json:
        described = {"output": str(output), "format": chosen, **written, "dim": dim, "constraint": constraint}
        typer.echo(json.dumps(described))
        return
    many = " and ".join(f"{count:,} {kind}" for kind, count in written.items())
    typer.echo(f"{output} holds the vectors of {many}, {dim} dimensions")
    note(_NEAREST[constraint])
    if chosen == "usearch":
        from spherec.export import index  # brings usearch, an extra

        note(f"its keys are positions; {index.ids_path(output)} has their ids")
        if what == "items":
            note(f"spherec recommend and similar answer through it with --index {shlex.quote(str(output))}")


@contextmanager
def _rows_bar(label: str) -> Iterator[ProgressCallback]:
    """A bar on standard error, gone when done."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
