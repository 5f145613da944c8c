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

from spherec import errors
from spherec._version import __version__
from spherec.errors import SpherecError

if _typing.TYPE_CHECKING:
    from spherec import datasets
    from spherec.data import splits
    from spherec.data.cuts import Cut
    from spherec.data.features import Features
    from spherec.data.interactions import Interactions
    from spherec.data.read import read, read_features, read_names
    from spherec.data.statistics import statistics
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

# Everything is imported when it is first asked for: NumPy and SciPy take a quarter of a second, torch one or two.
_PARTS = ("artifact", "data", "datasets", "evaluation", "export", "data.splits", "lab", "ranking", "training")
_PLACES = {
    "spherec.data.cuts": ("Cut",),
    "spherec.data.features": ("Features",),
    "spherec.data.interactions": ("Interactions",),
    "spherec.data.read": ("read", "read_features", "read_names"),
    "spherec.data.statistics": ("statistics",),
    "spherec.evaluation": ("evaluate",),
    "spherec.recommender": ("CML", "load"),
}
# Their classes are names of the package: a new loss or sampler needs a line in its registry alone.
_REGISTRIES = {"spherec.losses": "LOSSES", "spherec.sampling": "SAMPLERS"}


def __getattr__(name: str) -> _typing.Any:
    for part in _PARTS:
        if name == part.rpartition(".")[2]:
            return _importlib.import_module(f"spherec.{part}")
    for module, names in _PLACES.items():
        if name in names:
            return getattr(_importlib.import_module(module), name)
    for module, registry in _REGISTRIES.items():
        if name[:1].isupper() and name in (kinds := getattr(_importlib.import_module(module), registry)):
            return kinds[name]
    raise AttributeError(f"module 'spherec' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
