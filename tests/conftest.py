"""What all tests share."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("default", deadline=None, max_examples=60)
settings.load_profile("default")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the real data sets; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("SPHEREC_SHARED", Path(__file__).parents[2] / "shared"))
    if not folder.is_dir():
        pytest.skip(f"the real data sets are not at {folder}; set SPHEREC_SHARED")
    return folder
