"""`spherec tune`: which settings are best for this data."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from spherec.cli.settings import MODEL, ConfigFile, PresetToBegin, changes
from spherec.cli.source import Source, takes_source

_SEARCH = "Search"
_GOAL = "What is best"


@takes_source
def tune(
    source: Source,
    context: typer.Context,
    output: Annotated[Path, typer.Option("--output", "-o", help="The settings to write, e.g. best.toml.")],
    preset: PresetToBegin = "two-stage",
    config: ConfigFile = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any setting that all trials share, as often as needed, e.g. dim=64.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of the split, of training, and of what is tried.", rich_help_panel=MODEL)
    ] = None,
    searches: Annotated[
        list[str] | None,
        typer.Option(
            "--search",
            metavar="NAME=RANGE",
            help="A setting to search, as often as needed: sampler.beta=0.1..1.0, "
            "optimizer.learning_rate=1e-4..1e-2:log, dim=32..256:32, dim=64,128,256. If nothing is said, what matters "
            "most for this loss and sampler.",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    trials: Annotated[
        int, typer.Option(help="That the study shall have in the end, earlier calls included.", rich_help_panel=_SEARCH)
    ] = 50,
    minutes: Annotated[
        float | None, typer.Option(help="After which no trial begins any more.", rich_help_panel=_SEARCH)
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            help="Where the study is kept: a file, or postgresql://… or mysql://… for several machines. If nothing is "
            "said, a file beside the output that ends in .db.",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    study: Annotated[str, typer.Option(help="Its name there.", rich_help_panel=_SEARCH)] = "spherec",
    metric: Annotated[
        Literal["ndcg", "map", "recall"], typer.Option(help="On the held-out items.", rich_help_panel=_GOAL)
    ] = "ndcg",
    k: Annotated[int, typer.Option("-k", help="Length of the lists.", rich_help_panel=_GOAL)] = 50,
    mmr_at_most: Annotated[
        float | None,
        typer.Option(
            help="How popular lists may be: what has a larger MMR wins only if everything has.", rich_help_panel=_GOAL
        ),
    ] = None,
    validation: Annotated[
        float, typer.Option(help="Share of each user's items held out to judge by.", rich_help_panel=_GOAL)
    ] = 0.1,
    device: Annotated[
        Literal["auto", "cpu", "cuda"], typer.Option(help="'auto' takes the GPU where there is one.")
    ] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Search settings: train with many, judge each on held-out items, end poor ones early, write the best.

    For example: spherec tune book-crossing -o best.toml --search sampler.beta=0.1..1.0 --trials 30; then spherec train
    book-crossing --config best.toml -o books.spherec

    DATA is what models learn from; keep test data out of it. The study is kept: Ctrl-C loses nothing, and the same
    command goes on. Needs optuna, which spherec's extra "tune" brings.
    """
    from spherec.cli.tuning import run_tuning  # brings torch, which takes a while

    run_tuning(
        source,
        context,
        output,
        preset,
        config,
        changes(config, settings or [], {"seed": seed}),
        searches or [],
        goal={"metric": metric, "k": k, "validation": validation, "mmr_at_most": mmr_at_most},
        trials=trials,
        minutes=minutes,
        storage=storage or str(output.with_suffix(".db")),
        study=study,
        device=device,
        as_json=as_json,
    )
