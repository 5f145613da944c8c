"""`spherec evaluate`: how good a model's lists are, or those of another program."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def evaluate(
    model: Annotated[
        Path, typer.Argument(help="A model that `spherec train` wrote, or a table of user, item, rank from elsewhere.")
    ],
    train: Annotated[str, typer.Option(help="What it was trained on: 'book-crossing', a prepared file or a table.")],
    test: Annotated[str, typer.Option(help="What was held out, read like --train.")],
    k: Annotated[int, typer.Option("-k", help="Length of the lists.")] = 50,
    user_column: Annotated[str, typer.Option(help="Column with user ids, in tables.")] = "user",
    item_column: Annotated[str, typer.Option(help="Column with item ids, in tables.")] = "item",
    rank_column: Annotated[str, typer.Option(help="Column with ranks, in a table of lists; 1 is the best.")] = "rank",
    device: Annotated[
        Literal["auto", "cpu", "cuda"], typer.Option(help="'auto' takes the GPU where there is one.")
    ] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Rank all items for every user with something held out, training items excluded, and score the lists.

    For example: spherec data split movies.npz --by ratio -o split; spherec train split/train.npz -o model.spherec;
    spherec evaluate model.spherec --train split/train.npz --test split/test.npz
    """
    from spherec.cli.evaluation import run_evaluation  # brings torch, which takes a while

    run_evaluation(
        model,
        train,
        test,
        k=k,
        columns=(user_column, item_column, rank_column),
        device=device,
        as_json=as_json,
    )
