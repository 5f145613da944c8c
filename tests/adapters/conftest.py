"""MovieLens-1M as the papers of the family cut it, in a random split."""

import gzip

import numpy as np
import pytest

from spherec.data import splits
from spherec.data.interactions import Interactions


@pytest.fixture(scope="session")
def movielens(shared) -> splits.Fold:
    with gzip.open(shared / "data/cml-family/ml-1m.users.dat.gz", "rt") as file:
        rows = [list(map(int, line.split()[1:])) for line in file]
    users = np.repeat(np.arange(len(rows)), list(map(len, rows)))
    return splits.ratio(Interactions.from_pairs(users, np.concatenate(rows)), 0.2)


def columns(data: Interactions, user: str, item: str) -> dict[str, np.ndarray]:
    return {user: data.user_ids.array[data.users], item: data.item_ids.array[data.indices]}


def pytest_configure(config):
    config.addinivalue_line("markers", "eval: a mark of LensKit's own tests")
    config.addinivalue_line("filterwarnings", "ignore:lenskit.*deprecated:DeprecationWarning")  # by LensKit's imports
