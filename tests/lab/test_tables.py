"""What results come to: means, deviations, the best baseline, the p-value against it."""

import csv
import math

import numpy as np
import pytest
from scipy.stats import ttest_rel

from spherec.lab import Result, Trial
from spherec.lab.comparison import COMPARED_METRICS
from spherec.lab.records import UserValues
from spherec.lab.tables import best_baseline, comparison_csv, summarize

COLUMNS = (
    "model,map_mean,map_std,ndcg_mean,ndcg_std,recall_mean,recall_std,mmr_mean,mmr_std,"
    "fit_seconds,peak_mb,p_holm_vs_best_baseline"
)


def result(model, fold, ndcg, *, is_ours=False, peak_mb=10.0, **scores):
    return Result(
        "compare",
        model,
        fold,
        {},
        settings={"a": 1},
        trials=[Trial({"a": 1}, {"ndcg": 0.5})],
        scores={"map": 0.01, "ndcg": ndcg, "recall": 0.1, "mmr": 20.0} | scores,
        seconds={"choosing": 3.0, "training": 1.0 + fold},
        environment={"commit": "abc", "device": "CPU, 1 threads"},
        is_ours=is_ours,
        peak_mb=peak_mb,
        peak_of="resident in the process",
        run=f"{model}-{fold}",
    )


def lines(results, folder):
    return summarize(results, COMPARED_METRICS, folder)


def as_csv(table):
    return comparison_csv(table, COMPARED_METRICS)


@pytest.fixture
def folder(tmp_path):
    return UserValues(tmp_path)


def kept(folder, results, users=30):
    """Every user's values for these results, drawn; gives back the NDCG of each. AP is its square."""
    drawn = {}
    for at, one in enumerate(results):
        values = np.random.default_rng(at).random(users)
        folder.save(one, np.arange(users), {"map": values**2, "ndcg": values, "recall": values, "mmr": values})
        drawn[one.model, one.fold] = values.astype(np.float32).astype(np.float64)
    return drawn


def test_means_and_deviations_in_percent(folder):
    results = [result("a", 0, 0.1, mmr=10.0, map=0.02), result("a", 1, 0.3, mmr=20.0, map=0.04)]
    (line,) = lines(results, folder)
    assert (line["ndcg"].mean, line["ndcg"].std) == pytest.approx((20, math.sqrt(200)))
    assert (line["map"].mean, line["recall"].mean) == pytest.approx((3, 10))
    assert (line["mmr"].mean, line["mmr"].std) == pytest.approx((15, math.sqrt(50)))
    assert (line.seconds["training"], line.peak_mb, line.folds) == (1.5, 10, 2)


def test_the_best_baseline_is_no_model_of_ours():
    results = [result("a", 0, 0.1), result("a", 1, 0.4), result("b", 0, 0.3), result("c", 0, 0.9, is_ours=True)]
    assert best_baseline(results) == "b"
    assert best_baseline(results[-1:]) is None
    assert best_baseline([]) is None


def test_p_values_are_over_users_with_their_mean_over_folds(folder):
    results = [result(model, fold, ndcg) for model, ndcg in (("a", 0.3), ("b", 0.2)) for fold in (0, 1)]
    drawn = kept(folder, results)
    best, other = lines(results, folder)
    assert best.p_values == {}
    expected = ttest_rel(*((drawn[model, 0] + drawn[model, 1]) / 2 for model in "ba")).pvalue
    assert other.p_values["ndcg"] == pytest.approx(expected)
    expected = ttest_rel(*((drawn[model, 0] ** 2 + drawn[model, 1] ** 2) / 2 for model in "ba")).pvalue
    assert other.p_values["map"] == pytest.approx(expected, rel=1e-5)


def test_p_values_are_over_the_folds_that_both_have(folder):
    results = [result("a", 0, 0.3), result("a", 1, 0.3), result("b", 1, 0.2, is_ours=True)]
    drawn = kept(folder, results)
    assert lines(results, folder)[1].p_values["ndcg"] == pytest.approx(ttest_rel(drawn["b", 1], drawn["a", 1]).pvalue)
    apart = [result("a", 0, 0.3), result("b", 1, 0.2)]
    assert lines(apart, folder)[1].p_values == {}


def test_csv_has_exactly_these_columns(folder):
    results = [result("a", 0, 0.3), result("b", 0, 0.2, peak_mb=None)]
    kept(folder, results)
    text = as_csv(lines(results, folder))
    assert text.splitlines()[0] == COLUMNS
    first, second = csv.DictReader(text.splitlines())
    assert (first["model"], first["ndcg_mean"], first["ndcg_std"], first["peak_mb"]) == ("a", "30", "", "10")
    assert first["p_holm_vs_best_baseline"] == ""
    assert 0 <= float(second["p_holm_vs_best_baseline"]) <= 1
    assert second["peak_mb"] == ""


def test_p_values_are_corrected_for_their_number(folder):
    """Holm's step-down, against the least level at which each is rejected, found by trying all."""
    results = [result(model, 0, ndcg) for model, ndcg in zip("abcde", (0.9, 0.5, 0.4, 0.3, 0.2), strict=True)]
    drawn = kept(folder, results)
    raw = {model: ttest_rel(drawn[model, 0], drawn["a", 0]).pvalue for model in "bcde"}

    def rejected(level):
        out = set()
        for place, model in enumerate(sorted(raw, key=raw.get)):
            if raw[model] * (4 - place) > level:
                break
            out.add(model)
        return out

    for row in lines(results, folder)[1:]:
        corrected = row.p_values["ndcg"]
        assert corrected >= raw[row.model]
        if corrected < 1:
            assert row.model in rejected(corrected + 1e-9)
            assert row.model not in rejected(corrected - 1e-9)
