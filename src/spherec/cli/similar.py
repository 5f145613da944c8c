"""`spherec similar`, `explain` and `info`: a look around in a model."""

from typing import Annotated

import typer

from spherec.cli.asking import AsFormat, AsJson, Count, IndexPath, ModelPath, chosen_format


def similar(
    model: ModelPath,
    ids: Annotated[list[str], typer.Argument(metavar="ITEM...", help="Item ids, or @FILE with an id in each line.")],
    k: Count = 10,
    users: Annotated[bool, typer.Option("--users", help="The ids are users; list users like them.")] = False,
    index: IndexPath = None,
    format: AsFormat = "table",
    as_json: AsJson = False,
) -> None:
    """List the items that lie nearest to an item, or with --users the users nearest to a user.

    For example: spherec similar books.spherec 0345339703
    """
    from spherec.cli.answering import run_similar  # brings torch, which takes a while

    run_similar(model, ids, k, users=users, index=index, format=chosen_format(format, as_json))


def explain(
    model: ModelPath,
    user: Annotated[str, typer.Argument(metavar="USER", help="A user id.")],
    item: Annotated[str, typer.Argument(metavar="ITEM", help="An item id.")],
    k: Count = 5,
    format: AsFormat = "table",
    as_json: AsJson = False,
) -> None:
    """Say why a user would be recommended an item: which of the user's own items lie nearest to it.

    For example: spherec explain books.spherec 247752 0345339703
    """
    from spherec.cli.answering import run_explain  # brings torch, which takes a while

    run_explain(model, user, item, k, format=chosen_format(format, as_json))


def info(
    model: ModelPath,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Say what is in a model file: users, items, how it was trained, how well it did."""
    from spherec.cli.answering import run_info  # brings torch, which takes a while

    run_info(model, as_json=as_json)
