"""`spherec demo`: the paper's model on the embedded data, in a few lines of the public API."""

import shlex
from pathlib import Path

from rich.table import Table

import spherec
from spherec.cli._options import Force, option, refuse_output
from spherec.cli._output import grid, note, print_results, show
from spherec.cli.data import statistics_table
from spherec.evaluation import Scores
from spherec.lab.reproduction import PAPER_METRICS, paper_rows
from spherec.lab.tables import MeanStd, heading

_READER = "247752"
_SHOWN = 10


def demo_command(
    epochs: int = option("Passes over the pairs; fewer are quicker and less accurate.", "N", min=1, default=100),
    output: Path = option("File to save the model to.", "FILE", "--output", "-o", default=Path("demo.spherec")),
    force: Force = False,
) -> None:
    """This takes a few minutes on two cores, and keeps the model, to look at it with 'spherec serve'."""
    refuse_output(output, force)
    data = spherec.datasets.book_crossing()
    show(statistics_table(spherec.statistics(data)))
    fold = spherec.splits.k_fold(data, 4, seed=0)[0]
    note(f"training on fold 0 of 4: {len(fold.train):,} pairs, 5 negatives each, {epochs} epochs")
    model = spherec.CML(sampler=spherec.TwoStage.tuned(5), epochs=epochs)
    model.fit(fold.train, validation=0, progress=True)
    if model.artifact.ended == "interrupted":
        note(f"interrupted after {len(model.history.epochs)} epochs; what follows is the model as it is")
    show(_compared_with_paper(spherec.evaluate(model, fold.train, fold.test)))
    note("MMR is the median popularity of what is recommended: less is less biased")
    own, names = fold.train.items_of(int(data.user_ids.index_of([_READER])[0])), data.item_names or ()
    books = [[names[item] or "(title unknown)", str(data.item_ids[item])] for item in own[:_SHOWN]]
    show(grid(("book", "ISBN"), books, left=2, title=f"Reader {_READER} likes {len(own)} books, among them"))
    print_results(model.recommend(_READER, k=_SHOWN), False, ["user"], lambda _: "and may like")
    model.save(output)
    note(f"look at this model on a page: spherec serve {shlex.quote(str(output))}")
    note("or train your own: spherec train YOUR-EVENTS.csv --user-column USER --item-column ITEM -o model.spherec")


def _compared_with_paper(scores: Scores) -> Table:
    ours = {metric.name: MeanStd.of([scores[metric.name]], metric) for metric in PAPER_METRICS}
    theirs = paper_rows("book-crossing")["two-stage-5-256"].scores
    rows = [
        [name, *(f"{figures[metric.name].mean:.2f}" for metric in PAPER_METRICS)]
        for name, figures in (("this model, fold 0", ours), ("the paper, 4 folds", theirs))
    ]
    return grid(["", *map(heading, PAPER_METRICS)], rows, title="Two-stage, 5 negatives, batch 256, lists of 50")
