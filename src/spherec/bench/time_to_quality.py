"""Time to quality: seconds from the prepared file until the lists are good, for our models and for their baselines.

The learning rate of `fast` falls to 0 at its last epoch, so its lists are good only then: a run cannot be looked at on
the way. Each of our models is therefore trained three times, for a short, a middle and its whole number of epochs.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch

from spherec.bench.steps import generate_interactions
from spherec.data import splits
from spherec.data.interactions import Interactions
from spherec.data.splits import Fold
from spherec.errors import ArgumentError, DataError, MissingPackageError
from spherec.evaluation import evaluate, validation_part
from spherec.evaluation.metrics import median_popularity, ndcg
from spherec.lab.comparison import draw_settings
from spherec.lab.environment import environment_of
from spherec.lab.model import ComparedModel, FitContext
from spherec.lab.ours import OurModel
from spherec.lab.registry import find_models
from spherec.lab.trial import best_trial, run_trial
from spherec.memory import measure_peak
from spherec.training.presets import PRESETS

_BETWEEN = {"dim": 1024, "effort": 0.8, "batch_size": 1024, "sampler": {"negatives": 750}}

VARIANTS: Mapping[str, OurModel] = {"fast-1024": OurModel("fast-1024", PRESETS["fast"].training.change(_BETWEEN), {})}
"""Between `fast` and `accurate`: the dimensions and batches of the second, more negatives than the first, 24 epochs."""

DEFAULT_MODELS = ("fast", *VARIANTS, "accurate", "two-stage", "ease", "als")
SHARES = (0.95, 0.99, 1.0)
"""Shares of EASE's NDCG for which the time is reported."""

_TEST = 0.2  # share of each user's items
_VALIDATION = 0.1  # of the rest, on which the settings of baselines are chosen
_TARGET, _RIVAL = "ease", "als"


@dataclass(frozen=True)
class QualityPlan:
    """Settings of the measurement."""

    lengths: tuple[float, ...] = (1 / 9, 1 / 3, 1.0)
    "Shares of the epochs of our models; each is a run of its own."
    trials: int = 5
    "Settings of each baseline that are tried on a validation part before its timed fit."
    k: int = 50
    "Length of the lists."
    seed: int = 0
    "Seed of everything random."

    def __post_init__(self) -> None:
        if not self.lengths or not all(0 < length <= 1 for length in self.lengths):
            raise ArgumentError(f"lengths must be shares above 0 and at most 1, got {self.lengths}")


@dataclass(frozen=True)
class TimedRun:
    """One fit, timed and tested."""

    model: str
    settings: dict[str, Any]
    "Settings that were chosen for a baseline; the number of epochs of our models."
    seconds: float
    "Time from the prepared file to a model that lists items: reading the file and fitting."
    peak_mb: float | None
    "Peak memory of the fit beyond the data; None if the system does not report it."
    ndcg: float
    mmr: float


@dataclass(frozen=True)
class TimeToQuality:
    """All runs on one data set."""

    environment: dict[str, Any]
    data: dict[str, Any]
    plan: QualityPlan
    runs: tuple[TimedRun, ...]
    skipped: dict[str, str]
    "Models that could not be fit here, and why."

    @property
    def target(self) -> float | None:
        """NDCG of EASE; None if it was not fit."""
        return next((run.ndcg for run in self.runs if run.model == _TARGET), None)

    @property
    def als_seconds(self) -> float | None:
        """Seconds of ALS; None if it was not fit."""
        return next((run.seconds for run in self.runs if run.model == _RIVAL), None)

    def seconds_until(self, share: float) -> dict[str, float | None]:
        """Return for each model the seconds of its fastest run with this share of EASE's NDCG; None if none has it."""
        if self.target is None:
            return {}
        good = [run for run in self.runs if run.ndcg >= share * self.target]
        models = dict.fromkeys(run.model for run in self.runs)
        return {model: min((run.seconds for run in good if run.model == model), default=None) for model in models}

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        until = {f"{share:.0%}": self.seconds_until(share) for share in SHARES}
        return {"benchmark": "spherec bench --time-to-quality", **asdict(self), "seconds_until_share_of_ease": until}


def measure_time_to_quality(
    load: Callable[[], Interactions],
    models: Iterable[str] = DEFAULT_MODELS,
    plan: QualityPlan | None = None,
    *,
    device: torch.device,
    on_progress: Callable[[str], None] = lambda _: None,
) -> TimeToQuality:
    """Fit and test the models on what `load` returns, one after the other, and time each fit.

    The seconds of `load` are part of each figure. A fifth of each user's items is the test part. Splitting, the search
    for settings of the baselines and the test are not timed; nor is what is set up at the first use of a library.
    """
    plan = plan or QualityPlan()
    began = time.perf_counter()
    data = load()
    loaded_in = time.perf_counter() - began
    fold = splits.ratio(data, _TEST, seed=plan.seed)
    if not len(fold.test):
        raise DataError("no user has enough items to hold a fifth of them out; give other data")
    runs, skipped = [], {}
    for model in _find(models):
        try:
            model.check(fold.train)
        except (DataError, MissingPackageError) as error:
            skipped[model.name] = str(error)
            on_progress(f"{model.name} is left out: {error}")
            continue
        context = FitContext(plan.k, plan.seed, model.device_for(device))
        _warm_up(model, context)
        for settings in _choose_settings(model, fold, plan, context):
            on_progress(f"{model.name}: {', '.join(f'{name} {value}' for name, value in settings.items())}")
            runs.append(_time(model, settings, fold, context, loaded_in))
    sizes = {"users": data.n_users, "items": data.n_items, "pairs": len(data), "train_pairs": len(fold.train)}
    environment = environment_of(device) | {"device_type": device.type}
    return TimeToQuality(environment, sizes, plan, tuple(runs), skipped)


def _find(models: Iterable[str]) -> Sequence[ComparedModel]:
    return find_models([VARIANTS.get(name, name) for name in models])


def _choose_settings(
    model: ComparedModel, fold: Fold, plan: QualityPlan, context: FitContext
) -> Iterator[dict[str, Any]]:
    """Yield the settings of each timed run: the lengths of our models, the best of some trials of a baseline."""
    if isinstance(model, OurModel):
        defaults = {name: values[0] for name, values in model.search_space.items()}
        epochs = model.config.plan(len(fold.train)).epochs
        for count in dict.fromkeys(max(round(length * epochs), 1) for length in plan.lengths):
            yield {**defaults, "epochs": count}
        return
    some = draw_settings(model.search_space, plan.trials, seed=plan.seed, name=model.name, fold=0)
    if len(some) == 1:
        yield some[0]
        return
    part, trials = validation_part(fold.train, _VALIDATION, seed=plan.seed), []
    for settings in some:
        trial, _ = run_trial(part, settings, partial(model.fit_validated, settings=settings, context=context), k=plan.k)
        trials.append(trial)
    best = best_trial(trials)
    yield best.refit if best else some[0]


def _time(
    model: ComparedModel, settings: dict[str, Any], fold: Fold, context: FitContext, loaded_in: float
) -> TimedRun:
    with measure_peak(context.device) as peak:
        began = time.perf_counter()
        fitted = model.fit(fold.train, settings, context)
        if context.device.type == "cuda":
            torch.cuda.synchronize(context.device)
        seconds = loaded_in + time.perf_counter() - began
    scores = evaluate(model.ask(fitted), fold.train, fold.test, k=context.k, metrics=[ndcg, median_popularity])
    return TimedRun(model.name, settings, seconds, peak.mb, scores[ndcg.name], scores[median_popularity.name])


def _warm_up(model: ComparedModel, context: FitContext) -> None:
    """Fit on a few pairs, so that compiling and importing are not timed."""
    few = generate_interactions(30, 200, 600)
    settings = {name: values[0] for name, values in model.search_space.items()}
    if isinstance(model, OurModel):
        model = OurModel(model.name, replace(model.config, dim=8, subspace_dim=None), {})
        settings = {"epochs": 1}
    model.fit(few, settings, context)
