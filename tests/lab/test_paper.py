"""What records come to: means, deviations, and how they compare with the paper's."""

import csv
import math
from statistics import mean, stdev

import pytest

from spherec.evaluation.metrics import find_metric
from spherec.lab import paper_rows
from spherec.lab.paper import PAPER_METRICS, compare_with_paper, mark, paper_csv, paper_markdown
from spherec.lab.table import MeanStd, TableRow, summarize
from tests.lab.tiny import record

NDCG = (0.04, 0.05, 0.0525)


def line(row="uniform-1-4096", map=1.12, ndcg=3.98, mmr=55.2):
    scores = {"map": MeanStd(map, 0.1), "ndcg": MeanStd(ndcg, 0.2), "mmr": MeanStd(mmr, 3.0)}
    return TableRow(row, 4, scores, {"choosing": 20.0, "training": 40.0}, 20.0)


def lines(records):
    return summarize(records, PAPER_METRICS)


def test_means_and_deviations_are_those_over_folds():
    (one,) = lines(record(fold=fold, ndcg=ndcg, mmr=10.0 * fold) for fold, ndcg in enumerate(NDCG))
    assert one.folds == 3
    assert one["ndcg"].mean == pytest.approx(100 * mean(NDCG))
    assert one["ndcg"].std == pytest.approx(100 * stdev(NDCG))
    assert (one["map"].mean, one["map"].std) == pytest.approx((1.0, 0.0))
    assert (one["mmr"].mean, one["mmr"].std) == pytest.approx((10.0, 10.0)), "not in percent"


def test_epochs_and_seconds_are_means_without_the_test():
    (one,) = lines([record(fold=0, epochs=2, choosing=1.0, training=2.0), record(fold=1, epochs=5, choosing=4.0)])
    assert (one.epochs, sum(one.seconds.values())) == (3.5, 4.5)


def test_the_deviation_of_one_fold_is_not_known():
    (one,) = lines([record(ndcg=0.125)])
    assert (one.folds, one["ndcg"].mean, str(one["ndcg"])) == (1, 12.5, "12.50")
    assert math.isnan(one["ndcg"].std)
    assert paper_csv("book-crossing", [one]).splitlines()[1].split(",")[6:8] == ["12.500", ""]


def test_rows_keep_the_order_in_which_they_come():
    table = lines(record(row, fold) for fold in range(2) for row in ("z-1-1", "a-1-1", "m-1-1"))
    assert [one.model for one in table] == ["z-1-1", "a-1-1", "m-1-1"]
    assert [one.folds for one in table] == [2, 2, 2]


def test_no_records_make_no_lines():
    assert lines([]) == []


@pytest.mark.data
def test_the_csv_has_the_columns_of_the_papers(shared):
    head = (shared / "paper/table2_results.csv").read_text().splitlines()[0]
    assert paper_csv("book-crossing", [line()]).splitlines()[0] == head


def test_the_csv_says_all_numbers():
    text = paper_csv("book-crossing", [line(), line("two-stage-5-256", map=1.23456)])
    first, second = csv.DictReader(text.splitlines())
    assert list(first.values())[:4] == ["book-crossing", "uniform", "1", "4096"]
    assert (second["sampler"], second["negatives"], second["batch"]) == ("two-stage", "5", "256")
    numbers = ["map_mean", "map_std", "ndcg_mean", "ndcg_std", "mmr_mean", "mmr_std"]
    assert list(first)[4:] == numbers
    assert [first[name] for name in numbers] == ["1.120", "0.100", "3.980", "0.200", "55.200", "3.000"]
    assert second["map_mean"] == "1.235"
    assert text.endswith("\n")
    assert "\r" not in text


@pytest.mark.parametrize(
    ("name", "ours", "theirs", "expected"),
    [
        ("ndcg", 4.5, (4.0, 0.25), "▲"),
        ("ndcg", 4.0, (4.0, 0.25), "▲"),
        ("ndcg", 3.875, (4.0, 0.25), "="),
        ("ndcg", 3.75, (4.0, 0.25), "="),
        ("ndcg", 3.625, (4.0, 0.25), "▼"),
        ("map", 1.5, (1.0, 0.5), "▲"),
        ("map", 0.5, (1.0, 0.5), "="),
        ("map", 0.25, (1.0, 0.5), "▼"),
        ("mmr", 40.0, (50.0, 0.5), "▲"),
        ("mmr", 50.0, (50.0, 0.5), "▲"),
        ("mmr", 54.0, (50.0, 0.5), "="),
        ("mmr", 56.0, (50.0, 0.5), "▼"),
        ("mmr", 56.0, (50.0, 9.0), "▼"),
    ],
)
def test_marks_say_how_ours_compares(name, ours, theirs, expected):
    assert mark(find_metric(name), MeanStd(ours, 99.0), MeanStd(*theirs)) == expected


def test_of_worse_lists_nothing_is_said_about_their_popularity():
    paper = paper_rows("book-crossing")["uniform-1-4096"]
    assert [ours[-1] for ours, _ in compare_with_paper(line(map=1.25, ndcg=3.9, mmr=1.0), paper)] == ["▲", "=", "▲"]
    assert [ours[-1] for ours, _ in compare_with_paper(line(map=1.25, ndcg=0.9, mmr=1.0), paper)][1:] == ["▼", "0"]


def test_the_table_stands_beside_the_papers():
    text = paper_markdown([line(map=1.25, ndcg=3.9, mmr=70.0)], paper_rows("book-crossing"))
    head, rule, row, blank, legend = text.splitlines()
    assert blank == ""
    assert legend.startswith("▲ better")
    assert head.count("|") == rule.count("|") == row.count("|") == 10
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == [
        *("uniform-1-4096", "1.25 ± 0.10 ▲", "1.12 ± 0.07", "3.90 ± 0.20 =", "3.98 ± 0.11"),
        *("70.00 ± 3.00 ▼", "55.20 ± 0.40", "20", "60"),
    ]


def test_a_row_outside_the_paper_stands_alone():
    text = paper_markdown([line("as-released-1-256")], paper_rows("book-crossing"))
    row = text.splitlines()[2]
    assert not set("▲=▼") & set(row)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert [cells[place] for place in (2, 4, 6)] == ["", "", ""]


def test_the_papers_own_numbers_are_as_good_as_the_papers():
    rows = paper_rows("echonest")
    table = [line(name, *(row.scores[metric].mean for metric in ("map", "ndcg", "mmr"))) for name, row in rows.items()]
    text = paper_markdown(table, paper_rows("echonest"))
    body = text.splitlines()[2:-2]
    assert "".join(body).count("▲") == 3 * len(rows)
    assert [row.split("|")[1].strip() for row in body] == list(rows)
