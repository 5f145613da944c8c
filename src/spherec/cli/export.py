"""`spherec export`: write a model's vectors for other programs."""

import json
import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from spherec.cli._output import counting_bar, note, show
from spherec.cli._settings import Force, refuse_existing
from spherec.data.output_files import refuse_unwritable
from spherec.errors import ArgumentError, quote
from spherec.export import EXPORT_FORMATS, find_format, write

_FORMATS = [f"{known.name} ({known.suffix})" for known in EXPORT_FORMATS]
_NEAREST = {
    "sphere": "nearest by cosine, dot product or Euclidean distance: on the sphere they agree",
    "ball": "nearest by Euclidean distance, not by cosine or dot product: the model lives in the ball",
}


def export_command(
    model: Annotated[Path, typer.Argument(help="Model file from 'spherec train'.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, e.g. books.parquet.")],
    format: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help=f"Format of the file: {', '.join(_FORMATS)}. Default: by the ending of the file."
        ),
    ] = None,
    part: Annotated[
        str | None,
        typer.Option(
            metavar="J/M",
            help="Write one of M parts of the items and users, J = 0 … M - 1: every M-th. Nothing else is read of a "
            "model in M shards.",
        ),
    ] = None,
    what: Annotated[Literal["items", "users", "both"], typer.Option(help="Vectors to write.")] = "items",
    names: Annotated[bool, typer.Option("--with-names/--without-names", help="Include the names of items.")] = True,
    force: Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a sentence.")] = False,
) -> None:
    """Write a model's vectors, with ids and names, for the program that will serve them.

    For example:

    - spherec export books.spherec -o books.parquet
    - spherec export books.spherec -o books.sql --what both
    - spherec export books.spherec --part 0/4 -o books.0-of-4.usearch
    """
    from spherec.artifact import Artifact
    from spherec.geometry import widened_dim

    chosen = find_format(output, format)
    refuse_unwritable(output)
    ids = output.with_suffix(chosen.ids_suffix) if chosen.ids_suffix else None  # of an index
    for file in filter(None, (output, ids)):
        refuse_existing(file, force)
    portion = _parse_part(part)
    loaded = Artifact.load(model, users=portion, items=portion)
    with counting_bar(f"writing {output.name}", "rows") as progress:
        write(output, loaded.vectors, loaded.data, format=chosen, what=what, names=names, progress=progress)
    counts = {"items": loaded.data.n_items, "users": loaded.data.n_users}
    written = {kind: count for kind, count in counts.items() if what in ("both", kind)}
    without_dial = ids is not None and what == "users"  # an index of users has no dial
    dial = None if without_dial or loaded.vectors.reach is None else loaded.vectors.dim
    dim, constraint = loaded.vectors.dim if without_dial else widened_dim(loaded.vectors), loaded.vectors.constraint
    if as_json:
        described = {"output": str(output), "format": chosen.name, **written, "dim": dim, "constraint": constraint}
        typer.echo(json.dumps(described | ({} if dial is None else {"dial_column": dial})))
        return
    many = " and ".join(f"{count:,} {kind}" for kind, count in written.items())
    show(f"{output} holds the vectors of {many}, {dim} dimensions")
    note(_NEAREST[constraint])
    if dial is not None:
        default = loaded.vectors.mainstream
        note(f"number {dial + 1} of a user's vector is mainstream ({default:g} by default), the last is 0")
    if ids is not None:
        note(f"its keys are positions; {ids} has their ids")
        if what == "items":
            others = "" if part is None else ", repeated for the indexes of all parts in their order"
            note(f"spherec recommend and similar answer through it with --index {shlex.quote(str(output))}{others}")


def _parse_part(text: str | None) -> tuple[int, int]:
    """Return the portion that --part names; the whole by default."""
    if text is None:
        return (0, 1)
    j, _, m = text.partition("/")
    if not (j.isdecimal() and m.isdecimal() and int(j) < int(m)):
        raise ArgumentError(f"--part must be J/M with J from 0 to M - 1, such as 0/4, got {quote(text)}")
    return int(j), int(m)
