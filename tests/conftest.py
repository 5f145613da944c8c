"""What all tests share."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Before torch is imported: its operations are tiny here, and threads that wait for each other cost more than they give.
os.environ["OMP_NUM_THREADS"] = "1"

# Other examples at each run find more; the same ones in continuous integration keep it from failing by chance.
settings.register_profile("default", deadline=None, max_examples=60, derandomize="CI" in os.environ)
settings.load_profile("default")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the real data sets; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("SPHEREC_SHARED", Path(__file__).parents[2] / "shared"))
    if not folder.is_dir():
        pytest.skip(f"the real data sets are not at {folder}; set SPHEREC_SHARED")
    return folder
