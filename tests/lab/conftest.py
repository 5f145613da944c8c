"""How tests of experiments run."""

import pytest

from spherec.lab import RecordFile, Result
from spherec.lab import reproduction as reproduction_module
from spherec.lab import trial as trial_module
from tests.lab.tiny import pairs_of


@pytest.fixture
def records(tmp_path):
    return RecordFile(tmp_path / "records.jsonl", Result)


@pytest.fixture
def trainings(monkeypatch):
    """What `train` was called with so far: [(pairs, config)]."""
    calls, train = [], trial_module.train

    def noted(data, config, **options):
        calls.append((pairs_of(data), config))
        return train(data, config, **options)

    for module in (trial_module, reproduction_module):
        monkeypatch.setattr(module, "train", noted)
    return calls
