"""Pictures of an experiment: files that can be seen, whatever the rows are."""

from dataclasses import replace

import pytest

from spherec.lab import Experiment, paper_rows
from spherec.lab.reproduction import PAPER_METRICS
from spherec.lab.tables import summarize
from tests.lab.tiny import record

pytest.importorskip("matplotlib")

FILES = ["accuracy-batch.png", "accuracy-popularity.png", "curves.png"]


def drawn(dataset, records, folder):
    """Draw, and read the pictures back: {name: pixels (height, width, channels)}."""
    from matplotlib import pyplot as plt

    from spherec.lab.plots import plot_reproduction

    paths = plot_reproduction(dataset, summarize(records, PAPER_METRICS), records, folder)
    assert plt.get_fignums() == [], "figures are closed"
    assert sorted(path.name for path in folder.iterdir()) == FILES
    return {path.name: plt.imread(path) for path in paths}


@pytest.mark.parametrize(
    ("dataset", "rows"),
    [
        ("book-crossing", list(paper_rows("book-crossing"))),
        ("book-crossing", [row.name for row in Experiment.embedded("two-stage").models]),
        ("echonest", ["two-stage-5-256"]),
        ("elsewhere", ["uniform-1-4096"]),
    ],
    ids=["the paper's rows", "rows outside the paper", "a single row", "a data set outside the paper"],
)
def test_three_pictures_can_be_read_back(dataset, rows, tmp_path):
    records = [record(row, fold, ndcg=0.04 + 0.001 * fold) for fold in range(2) for row in rows]
    for picture in drawn(dataset, records, tmp_path).values():
        assert picture.ndim == 3
        assert min(picture.shape[:2]) > 300
        assert picture.std() > 0.01, "not an empty page"


@pytest.mark.parametrize(
    "odd",
    [
        record(metrics=()),
        record(metrics=(0.0, 0.0), map=0.0, ndcg=0.0),
        record(mmr=0.0),
        record(mmr=float("nan")),
        replace(record(), curve=[{"epoch": 1, "loss": 0.5, "metric": 0.5}, {"epoch": 2, "loss": 0.0, "metric": None}]),
    ],
    ids=["no metric", "nothing found", "popularity of 0", "empty lists", "nothing left to learn"],
)
def test_odd_records_are_drawn_too(odd, tmp_path):
    drawn("book-crossing", [odd], tmp_path)
