"""What `results/compare` says is what the models are now, and what its records hold."""

import json
import math
from pathlib import Path

import pytest

from spherec.compare.contenders import contenders
from spherec.compare.record import Folder
from spherec.compare.table import as_csv, lines

RESULTS = Path(__file__).parents[2] / "results/compare"
NAMES = ("book-crossing", "citeulike-t", "gowalla", "lastfm")


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


@pytest.mark.parametrize("name", NAMES)
def test_no_peer_had_fewer_trials_than_ours(name):
    """But where it has fewer combinations of settings; where there is nothing to choose, none was tried."""
    results, _ = recorded(name)
    most = max(len(result.trials) for result in results if result.is_ours)
    for result in results:
        space = result.identity["space"]
        if not result.is_ours and space:
            assert len(result.trials) >= min(most, math.prod(map(len, space.values()))), result.model
