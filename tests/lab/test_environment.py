"""Where a result was made."""

import platform
import subprocess

import numpy as np
import pytest
import torch

from spherec import __version__
from spherec.data.archive import checksum
from spherec.lab.environment import environment_of

CPU = torch.device("cpu")


@pytest.fixture
def no_clone(monkeypatch):
    monkeypatch.delenv("SPHEREC_COMMIT", raising=False)

    def describe(answer):
        def run(command, **options):
            assert command[0] == "git"
            if isinstance(answer, BaseException):
                raise answer
            return subprocess.CompletedProcess(command, 0, stdout=answer)

        monkeypatch.setattr(subprocess, "run", run)

    return describe


def test_it_says_versions_device_and_commit(no_clone):
    no_clone("0123456789ab-dirty\n")
    assert environment_of(CPU) == {
        "spherec": __version__,
        "commit": "0123456789ab-dirty",
        "device": "CPU, 1 thread" if torch.get_num_threads() == 1 else f"CPU, {torch.get_num_threads()} threads",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def test_the_commit_that_is_given_wins(no_clone, monkeypatch):
    no_clone("0123456789ab")
    monkeypatch.setenv("SPHEREC_COMMIT", "fedcba")
    assert environment_of(CPU)["commit"] == "fedcba"


@pytest.mark.parametrize(
    "failure",
    [
        subprocess.CalledProcessError(128, "git"),
        FileNotFoundError("git"),
        PermissionError("git"),
        subprocess.TimeoutExpired("git", 10),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_outside_a_clone_the_commit_is_unknown(no_clone, failure):
    no_clone(failure)
    assert environment_of(CPU)["commit"] == "unknown"


def test_the_checksum_goes_by_all_bytes_of_all_arrays():
    ones = np.arange(6)
    several = [(ones,), (ones, ones), (ones[::-1],), (ones.astype(np.int32),), (ones + 1,)]
    assert len({checksum(*arrays) for arrays in several}) == len(several)
    assert checksum(ones[:3], ones[3:]) == checksum(ones) == checksum(np.arange(12)[:6].copy())
