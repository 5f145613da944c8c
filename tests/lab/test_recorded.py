"""What `results/compare` says is what the models are now, and what its records hold."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spherec.lab import RecordFile
from spherec.lab.comparison import COMPARED_METRICS
from spherec.lab.models import OurModel
from spherec.lab.records import UserValues
from spherec.lab.registry import find_models
from spherec.lab.tables import comparison_csv, page_cells, summarize

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results/compare"
NAMES = ("book-crossing", "citeulike-t", "gowalla", "lastfm", "lastfm-1500", "citeulike-t-999")
SHOWN = {  # in documents; ours are bold
    "ease": "EASE",
    "gf-cf": "GF-CF",
    "chebycf": "ChebyCF",
    "bpr": "BPR (implicit)",
    "knn": "item kNN (implicit)",
    "most-popular": "most popular",
}


LEFT_OUT = "als"  # of documents: its grid was too narrow


def recorded(name):
    return list(RecordFile(RESULTS / name / "records.jsonl"))


def table(name):
    return summarize(recorded(name), COMPARED_METRICS, UserValues(RESULTS / name))


@pytest.mark.parametrize("name", NAMES)
def test_every_model_was_run_as_it_is_now(name):
    """Otherwise a change of a preset or of what is searched has made the records those of another model."""
    for result in (result for result in recorded(name) if result.model != LEFT_OUT):
        name, _, mainstream = result.model.partition(", mainstream ")
        (now,) = find_models([name])
        if mainstream:  # the same model, asked for other lists
            now = OurModel(result.model, replace(now.config, mainstream=float(mainstream)), {})
        assert result.identity["base"] == json.loads(json.dumps(dict(now.fixed))), result.model
        for path, values in result.identity["space"].items():  # today's grids are wider
            assert set(values) <= set(now.search_space[path]), result.model


@pytest.mark.parametrize("name", NAMES)
def test_the_table_is_what_the_records_give(name):
    assert (RESULTS / f"{name}.csv").read_text() == comparison_csv(table(name), COMPARED_METRICS)
    assert (RESULTS / f"{name}.png").exists()


@pytest.mark.parametrize("name", NAMES)
def test_documents_show_the_same_numbers(name):
    page = (RESULTS / f"{name}.md").read_text()
    for line in table(name):
        bold = f"**{line.model}**"
        assert (
            "| "
            + " | ".join((bold if line.is_ours else line.model, *list(page_cells(line, COMPARED_METRICS).values())[1:]))
            + " |"
            in page
        )


def test_the_readme_shows_the_same_numbers():
    tables = [{line.model: line for line in table(name)} for name in NAMES[:3]]
    readme = (ROOT / "README.md").read_text()
    for model in tables[0].keys() - {LEFT_OUT}:
        shown = [f"{rows[model]['ndcg'].mean:.2f} | {rows[model]['mmr'].mean:.1f}" for rows in tables]
        assert "| " + " | ".join((SHOWN.get(model, f"**{model}**"), *shown)) + " |" in readme


@pytest.mark.parametrize("name", NAMES)
def test_no_baseline_had_fewer_trials_than_ours(name):
    """But where it has fewer combinations of settings; where there is nothing to choose, none was tried."""
    results = recorded(name)
    most = max(len(result.trials) for result in results if result.is_ours)
    for result in results:
        space = result.identity["space"]
        if not result.is_ours and space:
            assert len(result.trials) >= min(most, math.prod(map(len, space.values()))), result.model


@pytest.mark.parametrize("name", NAMES)
def test_every_test_has_the_values_of_its_users(name):
    users = UserValues(RESULTS / name)
    for result in recorded(name):
        values = users.load(result)
        assert set(values["model"]) == {result.model}
        assert set(values["fold"].tolist()) == {result.fold}
        for metric in COMPARED_METRICS:
            assert values[metric.name].dtype == np.float32
            assert np.nanmean(values[metric.name], dtype=np.float64) == pytest.approx(
                result.scores[metric.name], rel=1e-5
            )
