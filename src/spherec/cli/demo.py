"""`spherec demo`: the paper's model on the embedded data, with nothing to prepare."""

from typing import Annotated

import typer

EPOCHS = 100


def demo(
    epochs: Annotated[
        int, typer.Option(help="Passes over the training pairs; fewer are quicker and less accurate.", min=1)
    ] = EPOCHS,
) -> None:
    """Train the two-stage model on fold 0 of Book-Crossing, put it beside the paper's, and recommend books to a reader.

    Takes a few minutes on two cores.
    """
    from spherec.cli.demonstration import run_demo  # brings torch, which takes a while

    run_demo(epochs)
