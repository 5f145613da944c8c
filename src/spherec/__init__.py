"""spherec: recommendations from implicit feedback, by one metric space for users and items.

import spherec

data = spherec.datasets.book_crossing()  # or spherec.read("events.csv", user="uid", item="sku")
for fold in spherec.splits.k_fold(data, folds=4, seed=0):
    fold.train, fold.test
"""

import typing as _typing

from spherec import datasets, errors
from spherec._version import __version__
from spherec.data import splits
from spherec.data.filters import Cut
from spherec.data.interactions import Interactions
from spherec.data.splits import Fold
from spherec.data.statistics import Statistics, statistics
from spherec.errors import SpherecError

if _typing.TYPE_CHECKING:
    from spherec.data.readers import read, read_names

__all__ = [
    "Cut",
    "Fold",
    "Interactions",
    "SpherecError",
    "Statistics",
    "__version__",
    "datasets",
    "errors",
    "read",
    "read_names",
    "splits",
    "statistics",
]


def __getattr__(name: str) -> _typing.Any:
    """`read` and `read_names` bring polars with them, so they are imported when first asked for."""
    if name in ("read", "read_names"):
        from spherec.data import readers

        return getattr(readers, name)
    raise AttributeError(f"module 'spherec' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
