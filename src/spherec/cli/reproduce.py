"""`spherec reproduce`: the paper's table, from one command."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Dataset = Literal["book-crossing", "amazon-movies", "echonest", "two-stage"]


def reproduce(
    dataset: Annotated[
        Dataset,
        typer.Argument(
            help="Which of the paper's data sets. 'two-stage': what the public code did and what the text says, on "
            "Book-Crossing."
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            help="The published file of amazon-movies or echonest, raw or prepared; book-crossing is embedded."
        ),
    ] = None,
    rows: Annotated[
        str | None, typer.Option(help="Only these, with commas between, e.g. two-stage-5-256,uniform-5-4096.")
    ] = None,
    folds: Annotated[str | None, typer.Option(help="Only these, with commas between, e.g. 0,1.")] = None,
    device: Annotated[
        Literal["auto", "cpu", "cuda"], typer.Option(help="'auto' takes the GPU where there is one.")
    ] = "auto",
    workers: Annotated[int | None, typer.Option(help="Runs at once; if nothing is said, 8 on a GPU, else 1.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fold 0 and 10 epochs at most: a look, not a result.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The folder of the results; results/DATASET if nothing is said."),
    ] = None,
    plots: Annotated[bool, typer.Option("--plots/--no-plots", help="Draw them, too; needs matplotlib.")] = True,
) -> None:
    """Train and test every row of the paper's table on 4 folds, and put the figures beside the paper's.

    Runs that are recorded in the folder are not run again, so this can be stopped and started at will.
    """
    from spherec.cli.reproduction import run_reproduction  # brings torch, which takes a while

    run_reproduction(
        dataset,
        data,
        [row.strip() for row in rows.split(",")] if rows else None,
        folds,
        device=device,
        workers=workers,
        quick=quick,
        output=output or Path("results") / ("book-crossing" if dataset == "two-stage" else dataset),
        plots=plots,
    )
