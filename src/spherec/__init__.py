"""spherec: recommendations from implicit feedback, by one metric space for users and items.

import spherec

data = spherec.datasets.book_crossing()  # or spherec.read("events.csv", user="uid", item="sku")
model = spherec.CML(dim=128, loss=spherec.Hinge(margin=1.0), sampler=spherec.TwoStage(negatives=5))
model.fit(data, validation=0.05)
model.recommend(["247752"], k=10)
model.recommend_for(items=["0345339703", "0439064872"], k=10)  # a user never seen
model.save("books.spherec")
"""

import importlib as _importlib
import typing as _typing

from spherec import datasets, errors
from spherec._version import __version__
from spherec.data import splits
from spherec.data.cuts import Cut
from spherec.data.features import Features
from spherec.data.interactions import Interactions
from spherec.data.readers import read, read_features, read_names
from spherec.data.statistics import statistics
from spherec.errors import SpherecError

if _typing.TYPE_CHECKING:
    from spherec.evaluation import evaluate
    from spherec.losses import Hinge, Softmin
    from spherec.recommender import CML, load
    from spherec.sampling import Hard, Popularity, SemiHard, TwoStage, Uniform

__all__ = [
    "CML",
    "Cut",
    "Features",
    "Hard",
    "Hinge",
    "Interactions",
    "Popularity",
    "SemiHard",
    "Softmin",
    "SpherecError",
    "TwoStage",
    "Uniform",
    "__version__",
    "datasets",
    "errors",
    "evaluate",
    "load",
    "read",
    "read_features",
    "read_names",
    "splits",
    "statistics",
]

# These bring torch with them, so they are imported when first asked for.
_LATE = {
    "spherec.evaluation": ("evaluate",),
    "spherec.losses": ("Hinge", "Softmin"),
    "spherec.recommender": ("CML", "load"),
    "spherec.sampling": ("Hard", "Popularity", "SemiHard", "TwoStage", "Uniform"),
}
# Reached without an import of their own.
_PARTS = ("artifact", "evaluation", "experiments", "export", "ranking", "training")


def __getattr__(name: str) -> _typing.Any:
    for module, names in _LATE.items():
        if name in names:
            return getattr(_importlib.import_module(module), name)
    if name in _PARTS:
        return _importlib.import_module(f"spherec.{name}")
    raise AttributeError(f"module 'spherec' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
