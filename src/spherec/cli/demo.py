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
    """The paper's model beside the paper's figures, and the default one, which is kept. It takes two minutes."""
    refuse_output(output, force)
    data = spherec.datasets.book_crossing()
    show(statistics_table(spherec.statistics(data)))
    fold = spherec.splits.k_fold(data, 4, seed=0)[0]
    note(f"training on fold 0 of 4: {len(fold.train):,} pairs, 5 negatives each, {epochs} epochs")
    paper = spherec.CML(sampler=spherec.TwoStage.tuned(5), epochs=epochs)
    paper.fit(fold.train, validation=0, progress=True)
    if paper.artifact.ended == "interrupted":
        note(f"interrupted after {len(paper.history.epochs)} epochs; what follows is the model as it is")
    note("training the default model: a start in closed form, a few epochs")
    model = spherec.CML().fit(fold.train, progress=True)
    show(_compared_with_paper(*(spherec.evaluate(one, fold.train, fold.test) for one in (paper, model))))
    note("MMR is the median popularity of what is recommended: less is less biased")
    own, names = fold.train.items_of(int(data.user_ids.index_of([_READER])[0])), data.item_names or ()
    books = [[names[item] or "(title unknown)", str(data.item_ids[item])] for item in own[:_SHOWN]]
    show(grid(("book", "ISBN"), books, left=2, title=f"Reader {_READER} likes {len(own)} books, among them"))
    print_results(paper.recommend(_READER, k=_SHOWN), False, ["user"], lambda _: "by the paper's model, may like")
    print_results(model.recommend(_READER, k=_SHOWN), False, ["user"], lambda _: "and by the default model, may like")
    model.save(output)
    note(f"look at this model on a page: spherec serve {shlex.quote(str(output))}")
    note("or train your own: spherec train YOUR-EVENTS.csv --user-column USER --item-column ITEM -o model.spherec")


def _compared_with_paper(paper: Scores, default: Scores) -> Table:
    def figures(scores: Scores) -> dict[str, MeanStd]:
        return {metric.name: MeanStd.of([scores[metric.name]], metric) for metric in PAPER_METRICS}

    models = {
        "two-stage (5 negatives, batch 256), the paper, 4 folds": paper_rows("book-crossing")["two-stage-5-256"].scores,
        "the same, this run, fold 0": figures(paper),
        "the default model, fold 0": figures(default),
    }
    rows = [[name, *(f"{row[metric.name].mean:.2f}" for metric in PAPER_METRICS)] for name, row in models.items()]
    return grid(["", *map(heading, PAPER_METRICS)], rows, title="Lists of 50")
