"""Groups of processes for tests of training in several."""

import pytest
import torch

from tests.child_process import answering


@pytest.fixture(scope="module")
def ask():
    with answering("tests.training.crew") as ask:
        yield ask


@pytest.fixture
def crew(ask, tmp_path):
    """Run a task in n processes; return what each leaves, None for one that was killed."""

    def work(task, processes, *, ends=None, kill=None, **options):
        wanted = {"task": task, "processes": processes, "folder": str(tmp_path), "options": options, "kill": kill}
        ended = ask(wanted)
        assert kill or ended == (ends or [0] * processes)
        files = [tmp_path / f"{rank}.pt" for rank in range(processes)]
        results = [torch.load(file) if file.exists() else None for file in files]
        for file in files:
            file.unlink(missing_ok=True)
        return results

    return work
