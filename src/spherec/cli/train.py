"""`spherec train`: from interactions to vectors."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from spherec.cli.names import IdColumn, NameColumn, NamesPath, load_with_names
from spherec.cli.settings import MODEL, ConfigFile, PresetToBegin, changes
from spherec.cli.source import Source, takes_source

_RUN = "Run"


@takes_source
def train(
    source: Source,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model to write, e.g. books.spherec.")],
    names: NamesPath = None,
    names_id_column: IdColumn = "id",
    names_column: NameColumn = "name",
    preset: PresetToBegin = "two-stage",
    config: ConfigFile = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any setting, as often as needed, e.g. sampler.beta=0.6, loss.kind=Softmin, sampler.kind=Hard. "
            "`spherec presets two-stage` lists them.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    dim: Annotated[int | None, typer.Option(help="Dimensions of the space.", rich_help_panel=MODEL)] = None,
    negatives: Annotated[int | None, typer.Option(help="For each positive pair.", rich_help_panel=MODEL)] = None,
    batch_size: Annotated[int | None, typer.Option(help="Positive pairs a step.", rich_help_panel=MODEL)] = None,
    gamma: Annotated[
        float | None,
        typer.Option(
            help="The dial of popularity, with softmin (accurate 0.85, balanced 0.3, niche -0.6): 1 is as mainstream "
            "as people are, 0 far less, and below 0 less still.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of Adam.", rich_help_panel=MODEL)] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the pairs, at most.", rich_help_panel=MODEL)] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything random.", rich_help_panel=MODEL)] = None,
    validation: Annotated[
        float | None,
        typer.Option(
            help="Share of each user's items held out to choose the best epoch and to know when to stop; 0 trains on "
            "everything for all epochs. If nothing is said, 0.05; 0 with accurate, balanced and niche, which run to "
            "their end anyway.",
            rich_help_panel=_RUN,
        ),
    ] = None,
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        typer.Option(help="'auto' takes the GPU where there is one.", rich_help_panel=_RUN),
    ] = "auto",
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on where an interrupted run with this output stopped.", rich_help_panel=_RUN),
    ] = False,
    checkpoint_seconds: Annotated[float, typer.Option(help="Between two checkpoints.", rich_help_panel=_RUN)] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Train a model: vectors of users and items in one space, in which a user's nearest items are what to recommend.

    For example: spherec train book-crossing -o books.spherec; a table of your own: spherec train plays.csv -o
    music.spherec --user-column listener --item-column record --names records.csv

    Ctrl-C ends the run with the best model so far, and --resume goes on later.
    """
    from spherec.cli.training import run_training  # brings torch, which takes a while

    flags = {
        "dim": dim,
        "sampler.negatives": negatives,
        "batch_size": batch_size,
        "loss.gamma": gamma,
        "optimizer.learning_rate": learning_rate,
        "epochs": epochs,
        "seed": seed,
    }
    run_training(
        (source.data, names, config),
        lambda: load_with_names(source, names, names_id_column, names_column),
        output,
        preset,
        changes(config, settings or [], flags),
        validation=validation,
        device=device,
        resume=resume,
        checkpoint_seconds=checkpoint_seconds,
        as_json=as_json,
    )
