"""How tests of experiments run."""

import pytest

from spherec.experiments import Records
from spherec.experiments import runner as runner_module
from tests.experiments.tiny import pairs_of


@pytest.fixture
def records(tmp_path):
    return Records(tmp_path / "records.jsonl")


@pytest.fixture
def trainings(monkeypatch):
    """What `train` was called with so far: [(pairs, config)]."""
    calls, train = [], runner_module.train

    def noted(data, config, **options):
        calls.append((pairs_of(data), config))
        return train(data, config, **options)

    monkeypatch.setattr(runner_module, "train", noted)
    return calls
