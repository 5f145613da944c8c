"""`spherec compare`: our models beside those that a user might take instead."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from spherec.cli.source import Source, takes_source


@takes_source
def compare(
    source: Source,
    context: typer.Context,
    models: Annotated[
        str | None,
        typer.Option(
            help="Which, with commas between: presets of ours (`spherec presets`), and the peers ease, als, bpr, knn, "
            "most-popular. If nothing is said, our main presets and all peers. als, bpr and knn need the package "
            "implicit."
        ),
    ] = None,
    folds: Annotated[
        int | None, typer.Option(help="Parts that each user's items are dealt over. 4 if nothing is said.")
    ] = None,
    only_folds: Annotated[str | None, typer.Option(help="Run only these, with commas between, e.g. 0,1.")] = None,
    test: Annotated[
        str | None, typer.Option(help="A test part of its own, read like DATA, instead of folds; DATA then trains.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Length of the lists.")] = 50,
    trials: Annotated[
        int, typer.Option(help="Settings that each model is tried with on each fold, its default first.")
    ] = 10,
    validation: Annotated[
        float, typer.Option(help="Share of each user's training items that settings are chosen on.")
    ] = 0.05,
    seed: Annotated[int, typer.Option(help="Of the split, of the settings drawn, of the models.")] = 0,
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        typer.Option(help="'auto' takes the GPU where there is one; als, bpr and knn stay on the CPU."),
    ] = "auto",
    workers: Annotated[
        int | None, typer.Option(help="Trials of ours at once; if nothing is said, 8 on a GPU, else 1.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of the results.")] = Path(
        "results/compare"
    ),
    name: Annotated[str | None, typer.Option(help="What its files are called; as the data if nothing is said.")] = None,
    plots: Annotated[bool, typer.Option("--plots/--no-plots", help="Draw, too; needs matplotlib.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Train and test our models and their peers alike: which is the best for your data, and at what price?

    Each model is tried with the same number of settings on a validation part of the training items. With the best it is
    trained on all of them, and its lists are held against the test items, once. What is recorded in the folder is not
    run again: stop and start at will, or run some models here and others on another machine. When nothing is left to
    run, the table is printed at once.

    For example: spherec compare book-crossing --models two-stage,ease,als --trials 5
    """
    from spherec.cli.comparing import Options, run_comparison  # brings torch, which takes a while

    options = Options(
        models=models,
        folds=folds,
        only_folds=only_folds,
        test=test,
        k=k,
        trials=trials,
        validation=validation,
        seed=seed,
    )
    run_comparison(
        source, options, context, device=device, workers=workers, output=output, name=name, plots=plots, as_json=as_json
    )
