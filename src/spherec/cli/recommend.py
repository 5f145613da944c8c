"""`spherec recommend`: a user's nearest items, for one user, several, everybody, or somebody new."""

from pathlib import Path
from typing import Annotated

import typer

from spherec.cli.asking import AsFormat, AsJson, Count, IndexPath, ModelPath, chosen_format

_WHO = "For whom"
_WHAT = "What may come"


def recommend(
    model: ModelPath,
    users: Annotated[
        list[str] | None, typer.Argument(metavar="[USER]...", help="User ids, or @FILE with an id in each line.")
    ] = None,
    k: Count = 10,
    everybody: Annotated[
        bool, typer.Option("--all", help="Everybody whom the model knows; needs -o.", rich_help_panel=_WHO)
    ] = False,
    items: Annotated[
        str | None,
        typer.Option(
            help="For a user whom the model has never seen: the items that she has, with commas between, or @FILE.",
            rich_help_panel=_WHO,
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(help="Recommend nothing but these items: commas between, or @FILE.", rich_help_panel=_WHAT),
    ] = None,
    exclude: Annotated[
        str | None,
        typer.Option(help="Never recommend these items: commas between, or @FILE.", rich_help_panel=_WHAT),
    ] = None,
    with_seen: Annotated[
        bool, typer.Option("--with-seen", help="Also items that the user has.", rich_help_panel=_WHAT)
    ] = False,
    skip_unknown: Annotated[
        bool, typer.Option("--skip-unknown", help="Pass over ids that the model does not know.", rich_help_panel=_WHO)
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a table here: lists.parquet or lists.csv.")
    ] = None,
    index: IndexPath = None,
    format: AsFormat = "table",
    as_json: AsJson = False,
) -> None:
    """List the k nearest items of users, without those that they have.

    For example: spherec recommend books.spherec 247752; everybody: spherec recommend books.spherec --all -k 50 -o
    lists.parquet; somebody new: spherec recommend books.spherec --items 0345339703,0439064872
    """
    from spherec.cli.answering import run_recommend  # brings torch, which takes a while

    run_recommend(
        model,
        users or [],
        k,
        everybody=everybody,
        items=items,
        only=only,
        exclude=exclude,
        with_seen=with_seen,
        skip_unknown=skip_unknown,
        output=output,
        index=index,
        format=chosen_format(format, as_json),
    )
