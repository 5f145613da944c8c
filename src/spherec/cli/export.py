"""`spherec export`: write a model's vectors for other programs."""

import json
import re
import shlex
from pathlib import Path
from typing import Any, Literal

import typer

from spherec.artifact import Artifact
from spherec.cli._options import AsJson, Force, ModelPath, option, refuse_output
from spherec.cli._output import counting_bar, note, show
from spherec.errors import ArgumentError, quote
from spherec.export import EXPORT_FORMATS, ExportFormat, find_format, write
from spherec.geometry import widened_dim

_FORMATS = ", ".join(f"{known.name} ({known.suffix})" for known in EXPORT_FORMATS)
_NEAREST = {
    "sphere": "nearest by cosine, dot product or Euclidean distance: on the sphere they agree",
    "ball": "nearest by Euclidean distance, not by cosine or dot product: the model lives in the ball",
}
_PART = "Write part J of M: every M-th item and user from J = 0 … M - 1. A model in M shards is not read beyond it."
_What = Literal["items", "users", "both"]


def export_command(
    model: ModelPath,
    output: Path = option("File to write, e.g. books.parquet.", "FILE", "--output", "-o", default=...),
    format: str | None = option(f"One of {_FORMATS}. Default: by the ending of the file.", "NAME"),
    part: str = option(_PART, "J/M", default="0/1", show_default=False),
    what: _What = option("Vectors to write.", default="items"),
    names: bool = option("Include the names of items.", None, "--with-names/--without-names", default=True),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Examples:

    - spherec export books.spherec -o books.parquet
    - spherec export books.spherec -o books.sql --what both
    - spherec export books.spherec --part 0/4 -o books.0-of-4.usearch
    """
    chosen = find_format(output, format)
    ids = output.with_suffix(chosen.ids_suffix or output.suffix)  # of an index; other formats have none
    for file in (output, ids):
        refuse_output(file, force)
    j, m = map(int, part.split("/")) if re.fullmatch(r"\d+/\d+", part, re.ASCII) else (0, 0)
    if j >= m:
        raise ArgumentError(f"--part must be J/M with J from 0 to M - 1, such as 0/4, got {quote(part)}")
    loaded = Artifact.load(model, users=(j, m), items=(j, m))
    with counting_bar(f"writing {output.name}", "rows") as progress:
        write(output, loaded.vectors, loaded.data, format=chosen, what=what, names=names, progress=progress)
    described = _describe(loaded, output, chosen, what)
    if as_json:
        typer.echo(json.dumps(described))
        return
    many = " and ".join(f"{described[kind]:,} {kind}" for kind in ("items", "users") if kind in described)
    show(f"{output} holds the vectors of {many}, {described['dim']} dimensions")
    note(_NEAREST[loaded.vectors.constraint])
    if "dial_column" in described:
        default = loaded.vectors.mainstream
        note(f"number {described['dim'] - 1} of a user's vector is mainstream ({default:g} by default), the last is 0")
    if chosen.ids_suffix:
        note(f"its keys are positions; {ids} has their ids")
        if what == "items":
            others = "" if m == 1 else ", repeated for the indexes of all parts in their order"
            note(f"spherec recommend and similar answer through it with --index {shlex.quote(str(output))}{others}")


def _describe(model: Artifact, output: Path, format: ExportFormat, what: _What) -> dict[str, Any]:
    """Return what the file holds; a model with reach has a column for the dial, except in an index of users."""
    counts = {"items": model.data.n_items, "users": model.data.n_users}
    held = {kind: count for kind, count in counts.items() if what in ("both", kind)}
    vectors, dim = model.vectors, widened_dim(model.vectors)
    if format.ids_suffix and what == "users":
        dim = vectors.dim
    dial = {"dial_column": vectors.dim} if dim > vectors.dim else {}
    return {"output": str(output), "format": format.name, **held, "dim": dim, "constraint": vectors.constraint, **dial}
