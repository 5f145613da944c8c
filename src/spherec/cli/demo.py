"""`spherec demo`: the paper's model on the embedded data, with nothing to prepare."""

from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

from spherec import datasets
from spherec.cli._output import note, show
from spherec.cli.data import statistics_table
from spherec.data import splits
from spherec.data.interactions import Interactions
from spherec.data.statistics import statistics

if TYPE_CHECKING:
    from spherec.evaluation import Scores
    from spherec.geometry import DenseVectors

_READER = "247752"
_SHOWN = 10
_ROW = "two-stage-5-256"


def demo(
    epochs: Annotated[
        int, typer.Option(help="Passes over the training pairs; fewer are quicker and less accurate.", min=1)
    ] = 100,
) -> None:
    """Train the two-stage model on Book-Crossing, compare it with the paper's, and recommend books to a reader.

    Takes a few minutes on two cores.
    """
    from spherec.evaluation import evaluate
    from spherec.recommender.progress import training_bar
    from spherec.sampling import TwoStage
    from spherec.training import Training, train

    data = datasets.book_crossing()
    show(statistics_table(statistics(data), datasets.BOOK_CROSSING))
    fold = splits.k_fold(data, 4, seed=0)[0]
    note(f"training on fold 0 of 4: {len(fold.train):,} pairs, 5 negatives each, {epochs} epochs")
    config = Training(sampler=TwoStage.tuned(5), epochs=epochs)
    with training_bar(epochs, len(fold.train), "NDCG@50") as progress:
        trained = train(fold.train, config, progress=progress)
    if trained.ended == "interrupted":
        note(f"interrupted after {len(trained.history.epochs)} epochs; what follows is the model as it is")
    show(_compared_with_paper(evaluate(trained.vectors, fold.train, fold.test)))
    show(*_for_reader(trained.vectors, fold.train))
    note("next: spherec train YOUR-EVENTS.csv --user-column USER --item-column ITEM -o model.spherec; spherec --help")


def _compared_with_paper(scores: "Scores") -> Table:
    from spherec.experiments import paper_rows

    paper = paper_rows("book-crossing")[_ROW]
    table = Table(
        "", "MAP@50 %", "NDCG@50 %", "MMR@50", title="Two-stage, 5 negatives, batch 256", title_justify="left"
    )
    table.add_row("this model, fold 0", f"{100 * scores.map:.2f}", f"{100 * scores.ndcg:.2f}", f"{scores.mmr:.1f}")
    theirs = {name: spread.mean for name, spread in paper.scores.items()}
    table.add_row("the paper, 4 folds", f"{theirs['map']:.2f}", f"{theirs['ndcg']:.2f}", f"{theirs['mmr']:.1f}")
    table.caption = "MMR is the median popularity of what is recommended: less is less biased"
    table.caption_justify = "left"
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def _for_reader(model: "DenseVectors", train_part: Interactions) -> tuple[Table, Table]:
    """Show what a reader has, and what to read next."""
    from spherec.ranking import ExactRanker

    user = int(train_part.user_ids.index_of([_READER])[0])
    own = train_part.items_of(user)
    found = ExactRanker(model).top(np.array([user]), _SHOWN, without=train_part).items[0]
    return (
        _books(train_part, own[:_SHOWN], f"Reader {_READER} likes {len(own)} books, among them"),
        _books(train_part, found[found >= 0], "and may like"),
    )


def _books(data: Interactions, items: NDArray[np.integer], title: str) -> Table:
    table = Table("readers", "ISBN", "book", title=title, title_justify="left")
    table.columns[0].justify = "right"
    for item in items:
        name = data.item_names[item] if data.item_names else None
        table.add_row(str(data.users_per_item[item]), str(data.item_ids[int(item)]), name or "(title unknown)")
    return table
