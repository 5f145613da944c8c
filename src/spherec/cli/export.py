"""`spherec export`: a model's vectors for other programs."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def export(
    model: Annotated[Path, typer.Argument(help="A model that `spherec train` wrote.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write, e.g. books.parquet.")],
    format: Annotated[
        Literal["parquet", "npz", "usearch", "pgvector"] | None,
        typer.Option(help="What to write; without it the ending says: .parquet, .npz, .usearch, .sql (pgvector)."),
    ] = None,
    what: Annotated[Literal["items", "users", "both"], typer.Option(help="Whose vectors.")] = "items",
    names: Annotated[bool, typer.Option("--names/--no-names", help="Take the names of items along.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a sentence.")] = False,
) -> None:
    """Write a model's vectors, with their ids and names, for the program that is to serve them.

    parquet: a table for polars, pandas, DuckDB. npz: arrays for NumPy and FAISS. usearch: an index for nearest
    neighbours, the ids beside it. pgvector: a script that psql runs.

    For example: spherec export books.spherec -o books.parquet; spherec export books.spherec -o books.sql --what both
    """
    from spherec.cli.exporting import run_export  # brings torch, which takes a while

    run_export(model, output, format=format, what=what, names=names, as_json=as_json)
