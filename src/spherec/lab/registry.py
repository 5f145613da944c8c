"""The models that can be compared, by name. A new baseline needs its own file and a line here."""

from collections.abc import Iterable, Mapping

from spherec.data.features import Features
from spherec.errors import ArgumentError, quote, suggest
from spherec.lab.baselines.content_knn import ContentKnn
from spherec.lab.baselines.ease import Ease, Edlae
from spherec.lab.baselines.graph_filters import ChebyCf, GfCf
from spherec.lab.baselines.ials import IalsBaseline
from spherec.lab.baselines.implicit_models import Bpr, Knn
from spherec.lab.baselines.most_popular import MostPopular
from spherec.lab.models import FEATURED, PRESET_SEARCHES, TUNED, ComparedModel, OurModel, UserBaseline
from spherec.training import Training
from spherec.training.config import PRESETS

_CHEAP_FIRST = (MostPopular(), Knn(), GfCf(), ChebyCf(), Ease(), Edlae(), IalsBaseline(), Bpr())
BASELINES: Mapping[str, ComparedModel] = {baseline.name: baseline for baseline in _CHEAP_FIRST}
"""The built-in baselines: what a user might take instead."""


_OURS = ("quick", "fast", "accurate", f"quick{TUNED}", f"fast{TUNED}", f"accurate{TUNED}")
_SLOW = (Bpr.name, ChebyCf.name)  # to fit, so that a rough comparison does without
_ROUGH = (*(name for name in BASELINES if name not in _SLOW), "quick", "fast")


def default_models(features: Features | None = None, *, rough: bool = False) -> list[str]:
    """Return the names of all baselines and of our presets; of a rough comparison, without those that take longest."""
    with_features = [] if features is None else [ContentKnn.name, f"accurate{FEATURED}"]
    return [*(_ROUGH if rough else (*BASELINES, *_OURS)), *with_features]


def known_models() -> list[str]:
    """Return the names of all models that need no features."""
    return [*PRESETS, *(f"{name}{TUNED}" for name in PRESET_SEARCHES), *BASELINES]


def find_models(models: Iterable[object], features: Features | None = None) -> list[ComparedModel]:
    """Return the models: names, each once, configs of spherec (`Training` or `CML`), and baselines of your own.

    With features of items, presets with a schedule learn from them, and "content-knn" is content alone.
    """
    models = [models] if isinstance(models, str) else models
    found: list[ComparedModel] = []
    for given in models:
        if given not in [model.name for model in found]:
            found.append(_find_by_name(given, features) if isinstance(given, str) else _as_model(given))
    return found


def _find_by_name(name: str, features: Features | None) -> ComparedModel:
    if name in BASELINES:
        return BASELINES[name]
    known, untuned, featured = known_models(), name.removesuffix(TUNED), name.removesuffix(FEATURED)
    if name in known:
        return OurModel.preset(untuned, tuned=name != untuned)
    if name != ContentKnn.name and featured not in PRESETS:
        raise ArgumentError(
            f"there is no model called {quote(name)}{suggest(name, known)}; there are {', '.join(known)}"
        )
    if features is None:
        raise ArgumentError(
            f"{name} needs item features; give some with --item-features, in Python with ContentKnn(features) and "
            "OurModel.preset(name, features), or leave it out"
        )
    return ContentKnn(features) if name == ContentKnn.name else OurModel.preset(featured, features)


def _as_model(model: object) -> ComparedModel:
    """Return a config of spherec or a baseline of the user's own as a model in a comparison."""
    if isinstance(model, ComparedModel):
        return model
    config = model if isinstance(model, Training) else getattr(model, "config", None)
    if isinstance(config, Training):
        return OurModel(f"{type(config.loss).__name__}-{type(config.sampler).__name__}".lower(), config)
    if not isinstance(getattr(model, "name", None), str) or not callable(getattr(model, "fit", None)):
        raise ArgumentError(
            f"a model must be a name, a Training or a CML, or have name and fit(train, settings, context); got "
            f"{quote(model)}"
        )
    return UserBaseline(model)
