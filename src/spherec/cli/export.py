"""`spherec export`: write a model's vectors for other programs."""

import re
import shlex
from pathlib import Path
from typing import Literal

from spherec.artifact import Artifact
from spherec.cli._options import Force, ModelPath, option, refuse_output
from spherec.cli._output import counting_bar, note, show
from spherec.errors import ArgumentError, quote
from spherec.export import EXPORT_FORMATS, find_format, write
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
    force: Force = False,
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
        write(output, loaded.vectors, loaded.data, format=chosen, what=what, progress=progress)
    vectors, counts = loaded.vectors, {"items": loaded.data.n_items, "users": loaded.data.n_users}
    many = " and ".join(f"{count:,} {kind}" for kind, count in counts.items() if what in ("both", kind))
    dim = vectors.dim if chosen.ids_suffix and what == "users" else widened_dim(vectors)
    show(f"{output} holds the vectors of {many}, {dim} dimensions")
    note(_NEAREST[vectors.constraint])
    if dim > vectors.dim:  # a model with reach, except in an index of users
        note(f"number {dim - 1} of a user's vector is mainstream ({vectors.mainstream:g} by default), the last is 0")
    if chosen.ids_suffix:
        note(f"its keys are positions; {ids} has their ids")
        if what == "items":
            others = "" if m == 1 else ", repeated for the indexes of all parts in their order"
            note(f"spherec recommend and similar answer through it with --index {shlex.quote(str(output))}{others}")
