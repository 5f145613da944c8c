"""What `results/compare` says is what the models are now, and what its records hold."""

import json
import math
from pathlib import Path

import pytest

from spherec.compare.contenders import contenders
from spherec.compare.page import cells
from spherec.compare.record import Folder
from spherec.compare.table import as_csv, lines

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results/compare"
NAMES = ("book-crossing", "citeulike-t", "gowalla", "lastfm")
SHOWN = {  # in documents; ours are bold
    "ease": "EASE",
    "als": "ALS (implicit)",
    "bpr": "BPR (implicit)",
    "knn": "item kNN (implicit)",
    "most-popular": "most popular",
}


def recorded(name):
    folder = Folder(RESULTS / name)
    return list(folder.results), folder


@pytest.mark.parametrize("name", NAMES)
def test_every_model_was_run_as_it_is_now(name):
    """Otherwise a change of a preset or of what is searched has made the records those of another model."""
    for result in recorded(name)[0]:
        (now,) = contenders([result.model])
        known = {"base": dict(now.base), "space": {path: list(values) for path, values in now.space.items()}}
        assert {part: result.identity[part] for part in known} == json.loads(json.dumps(known)), result.model


@pytest.mark.parametrize("name", NAMES)
def test_the_table_is_what_the_records_give(name):
    assert (RESULTS / f"{name}.csv").read_text() == as_csv(lines(*recorded(name)))
    assert (RESULTS / f"{name}.png").exists()


def of(spread, digits):
    """A mean with its deviation, where there is one."""
    return f"{spread.mean:.{digits}f}" + (f" ± {spread.std:.{digits}f}" if spread.std == spread.std else "")


def p_of(value):
    return "" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


@pytest.mark.parametrize("name", NAMES)
def test_documents_show_the_same_numbers(name):
    page, beyond = (path.read_text() for path in (RESULTS / f"{name}.md", ROOT / "docs/beyond.md"))
    for line in lines(*recorded(name)):
        bold = f"**{line.model}**"
        assert "| " + " | ".join((bold if line.is_ours else line.model, *cells(line)[1:])) + " |" in page
        shown = [of(line.map, 2), of(line.ndcg, 2), of(line.recall, 2), of(line.mmr, 1), p_of(line.p_value)]
        assert "| " + " | ".join((SHOWN.get(line.model, bold), *shown)) + " |" in beyond


def test_the_readme_shows_the_same_numbers():
    tables = [{line.model: line for line in lines(*recorded(name))} for name in NAMES[:3]]
    readme = (ROOT / "README.md").read_text()
    for model in tables[0]:
        shown = [f"{table[model].ndcg.mean:.2f} | {table[model].mmr.mean:.1f}" for table in tables]
        assert "| " + " | ".join((SHOWN.get(model, f"**{model}**"), *shown)) + " |" in readme


@pytest.mark.parametrize("name", NAMES)
def test_no_peer_had_fewer_trials_than_ours(name):
    """But where it has fewer combinations of settings; where there is nothing to choose, none was tried."""
    results, _ = recorded(name)
    most = max(len(result.trials) for result in results if result.is_ours)
    for result in results:
        space = result.identity["space"]
        if not result.is_ours and space:
            assert len(result.trials) >= min(most, math.prod(map(len, space.values()))), result.model
