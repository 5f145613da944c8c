"""The data sets of the paper say what the paper's table says."""

import csv

import pytest

from spherec.datasets import PAPER_DATASETS


@pytest.mark.data
def test_the_data_sets_carry_table_1(shared):
    with open(shared / "paper/table1_datasets.csv", newline="") as file:
        rows = {row["dataset"]: row for row in csv.DictReader(file)}
    assert set(rows) == set(PAPER_DATASETS)
    for name, row in rows.items():
        paper = PAPER_DATASETS[name].paper
        assert [paper.users, paper.items, paper.pairs] == [int(row[key]) for key in ("users", "items", "ratings")]
        assert paper.density_percent == float(row["density_percent"])
        assert round(100 * paper.pairs / (paper.users * paper.items), 2) == pytest.approx(
            paper.density_percent, abs=0.01
        )
