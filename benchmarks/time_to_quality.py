"""Measure the seconds from the prepared file until the lists are good, for our models and for baselines.

    python benchmarks/time_to_quality.py [DATA] [--models fast,fast-1024,accurate,two-stage,ease,ials] [--quick]
        [--device auto|cpu|cuda] [-o RECORD.json]

DATA is 'book-crossing' or a prepared file. A fifth of each user's items is the test part. The learning rate of `fast`
falls to 0 at its last epoch, so its lists are good only then: each of our models is trained three times, for a short, a
middle and its whole number of epochs. Splitting, the search for settings of the baselines and the test are not timed,
nor is what is set up at the first use of a library. Draws RECORD.png, too.
"""

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from steps import generate_interactions

from spherec import datasets
from spherec.data import splits
from spherec.data.interactions import Interactions
from spherec.data.splits import Fold
from spherec.device import measure_peak, resolve
from spherec.errors import DataError, MissingPackageError
from spherec.evaluation import evaluate, validation_part
from spherec.evaluation.metrics import median_popularity, ndcg
from spherec.lab import ComparedModel, FitContext, OurModel, best_trial, run_trial
from spherec.lab.records import environment_of
from spherec.lab.registry import find_models
from spherec.training.config import find_preset

_BETWEEN = {"dim": 1024, "effort": 0.8, "batch_size": 1024, "sampler": {"negatives": 750}}
VARIANTS: Mapping[str, OurModel] = {"fast-1024": OurModel("fast-1024", find_preset("fast").change(_BETWEEN), {})}
"""Between `fast` and `accurate`: the dimensions and batches of the second, more negatives than the first, 24 epochs."""

SHARES = (0.95, 0.99, 1.0)  # of EASE's NDCG, for which the time is reported
TEST, VALIDATION = 0.2, 0.1  # shares of each user's items; settings of baselines are chosen on the second


@dataclass(frozen=True)
class Plan:
    """Settings of the measurement."""

    lengths: tuple[float, ...] = (1 / 9, 1 / 3, 1.0)
    "Shares of the epochs of our models; each is a run of its own."
    trials: int = 5
    "Settings of each baseline that are tried on a validation part before its timed fit."
    k: int = 50
    "Length of the lists."
    seed: int = 0


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default=datasets.BOOK_CROSSING.name)
    parser.add_argument("--models", default="fast,fast-1024,accurate,two-stage,ease,ials")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--quick", action="store_true", help="few epochs, and baselines with their default settings")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    plan = Plan(lengths=(1 / 90, 1 / 30, 1 / 10), trials=1) if options.quick else Plan()
    device = resolve(options.device)
    began = time.perf_counter()
    embedded = options.data == datasets.BOOK_CROSSING.name
    data = datasets.book_crossing() if embedded else Interactions.load(options.data)
    runs = list(measure(data, options.models.split(","), plan, device, time.perf_counter() - began))
    until = {f"{share:.0%}": seconds_until(share, runs) for share in SHARES}
    for share, seconds in until.items():
        print(f"seconds until {share} of EASE's NDCG: {seconds}")
    if options.output:
        record = {
            "environment": environment_of(device) | {"device_type": device.type},
            "data": {"users": data.n_users, "items": data.n_items, "pairs": len(data)},
            "plan": asdict(plan),
            "runs": [asdict(run) for run in runs],
            "seconds_until_share_of_ease": until,
        }
        options.output.write_text(json.dumps(record, indent=2) + "\n")
        draw(Path(options.data).stem, runs, plan.k, options.output.with_suffix(".png"))


def measure(
    data: Interactions, models: Iterable[str], plan: Plan, device: torch.device, loaded_in: float
) -> Iterator[TimedRun]:
    """Fit and test the models one after the other; yield each timed run, with the seconds of loading the data in it."""
    fold = splits.ratio(data, TEST, seed=plan.seed)
    for model in find_models([VARIANTS.get(name, name) for name in models]):
        try:
            model.check(fold.train)
        except (DataError, MissingPackageError) as error:
            print(f"{model.name} is left out: {error}")
            continue
        context = FitContext(plan.k, plan.seed, torch.device("cpu") if model.on_cpu else device)
        _warm_up(model, context)
        for settings in _choose_settings(model, fold, plan, context):
            run = _time(model, settings, fold, context, loaded_in)
            print(f"{run.model} {settings}: {run.seconds:,.1f} s, NDCG {100 * run.ndcg:.2f} %, MMR {run.mmr:,.0f}")
            yield run


def seconds_until(share: float, runs: Iterable[TimedRun]) -> dict[str, float | None]:
    """Return for each model the seconds of its fastest run with this share of EASE's NDCG; None if none has it."""
    runs = list(runs)
    target = next((run.ndcg for run in runs if run.model == "ease"), None)
    if target is None:
        return {}
    good = [run for run in runs if run.ndcg >= share * target]
    models = dict.fromkeys(run.model for run in runs)
    return {model: min((run.seconds for run in good if run.model == model), default=None) for model in models}


def draw(title: str, runs: Iterable[TimedRun], k: int, path: Path) -> None:
    """Draw NDCG against seconds: a line through the runs of each model."""
    runs = sorted(runs, key=lambda run: run.seconds)
    figure = Figure(figsize=(8, 5), layout="tight")
    axes = figure.subplots()
    for model in dict.fromkeys(run.model for run in runs):
        seconds, values = zip(*((run.seconds, 100 * run.ndcg) for run in runs if run.model == model), strict=True)
        axes.plot(seconds, values, marker="o", label=model)
    axes.set(xscale="log", xlabel="seconds from the prepared file to lists", ylabel=f"NDCG@{k}, %", title=title)
    axes.legend()
    figure.savefig(path, dpi=110)


def _choose_settings(model: ComparedModel, fold: Fold, plan: Plan, context: FitContext) -> Iterator[dict[str, Any]]:
    """Yield the settings of each timed run: the lengths of our models, the best of some trials of a baseline."""
    if isinstance(model, OurModel):
        defaults = {name: values[0] for name, values in model.search_space.items()}
        epochs = model.config.plan(len(fold.train)).epochs
        for count in dict.fromkeys(max(round(length * epochs), 1) for length in plan.lengths):
            yield {**defaults, "epochs": count}
        return
    some = model.draw(plan.trials, seed=plan.seed, fold=0)
    if len(some) == 1:
        yield some[0]
        return
    part, trials = validation_part(fold.train, VALIDATION, seed=plan.seed), []
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
    scores = evaluate(fitted, fold.train, fold.test, k=context.k, metrics=[ndcg, median_popularity])
    return TimedRun(model.name, settings, seconds, peak.mb, scores[ndcg.name], scores[median_popularity.name])


def _warm_up(model: ComparedModel, context: FitContext) -> None:
    """Fit on a few pairs, so that compiling and importing are not timed."""
    few = generate_interactions(30, 200, 600)
    settings = {name: values[0] for name, values in model.search_space.items()}
    if isinstance(model, OurModel):
        model = OurModel(model.name, replace(model.config, dim=8, subspace_dim=None), {})
        settings = {"epochs": 1}
    model.fit(few, settings, context)


if __name__ == "__main__":
    main()
