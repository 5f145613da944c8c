"""How tests of experiments run."""

import pytest

from spherec.lab import RecordFile, models, runs
from spherec.lab.baselines.ease import Ease
from tests.lab.tiny import pairs_of, tiny_preset


@pytest.fixture
def small(monkeypatch):
    """The preset two-stage trains in a blink, and EASE tries as few settings as the others."""
    tiny_preset(monkeypatch)
    monkeypatch.setattr(Ease, "tries_all", False)


@pytest.fixture
def records(tmp_path):
    return RecordFile(tmp_path / "records.jsonl")


@pytest.fixture
def trainings(monkeypatch):
    """What `train` was called with so far: [(pairs, config)]."""
    calls, train = [], runs.train

    def noted(run, *given, **options):
        calls.append((pairs_of(run.data), run.config))
        return train(run, *given, **options)

    for module in (runs, models):
        monkeypatch.setattr(module, "train", noted)
    return calls
