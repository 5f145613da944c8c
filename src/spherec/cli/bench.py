"""`spherec bench`: how fast it is on this machine, beside the same written the obvious way."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def bench(
    data: Annotated[str, typer.Option(help="'book-crossing' (the embedded data set) or a prepared file.")] = (
        "book-crossing"
    ),
    device: Annotated[
        Literal["auto", "cpu", "cuda"], typer.Option(help="'auto' takes the GPU where there is one.")
    ] = "auto",
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer settings and shorter: a look within half a minute.")
    ] = False,
    seconds: Annotated[
        float | None, typer.Option(help="For each of the chunks that medians are taken of; 0.5, or 0.1 with --quick.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file for the record, as JSON, besides what is printed.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Measure training steps, lists, reading and loading, in turns with a plain torch and NumPy implementation.

    Takes a few minutes on two cores; nothing else should be running. For example: spherec bench --quick
    """
    from spherec.cli.benchmarking import run_benchmark  # brings torch, which takes a while

    run_benchmark(data, device=device, quick=quick, seconds=seconds, output=output, as_json=as_json)
