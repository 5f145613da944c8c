"""Compare models: the same folds, number of trials, validation part and test for every model.

Each model is searched at random: its default settings first, then others drawn from `search_space`, none twice. The
best by NDCG on the validation part is fit again on all training data and tested once.
"""

import math
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from spherec import rng
from spherec.data import splits
from spherec.data.interactions import Interactions
from spherec.data.splits import Fold
from spherec.device import DeviceName, resolve
from spherec.errors import ArgumentError, DataError, SpherecError, TrainingError, quote
from spherec.evaluation import METRICS, Metric, Scores, evaluate, validation_part
from spherec.evaluation.metrics import (
    Formula,
    average_precision,
    find_metrics,
    median_popularity,
    ndcg,
    per_user_name,
    recall,
)
from spherec.lab.environment import environment_of
from spherec.lab.experiment import check_counts, check_validation
from spherec.lab.model import ComparedModel, FitContext, SearchValues
from spherec.lab.own_code import hash_own_code
from spherec.lab.pool import Stage, Watch, run_all, workers_for
from spherec.lab.registry import default_models, find_models, known_models
from spherec.lab.report import summarize_comparison
from spherec.lab.store import RecordFile, Result, TrialRecord, data_id
from spherec.lab.table import TableRow
from spherec.lab.trial import Trial, best_trial, run_trial
from spherec.lab.user_values import UserValues
from spherec.memory import measure_peak
from spherec.training.trainer import enough_memory

COMPARED_METRICS: tuple[Metric, ...] = (average_precision, ndcg, recall, median_popularity)
"""The columns of a comparison's table, by default."""


def compare(
    data: Interactions,
    models: Iterable[object] | None = None,
    *,
    folder: str | PathLike[str],
    test: Interactions | None = None,
    folds: int = 4,
    k: int = 50,
    trials: int = 10,
    validation: float = 0.05,
    seed: int = 0,
    metrics: str | Iterable[str | Metric | Formula] | None = None,
    device: DeviceName = "auto",
    workers: int | None = None,
    watch: Watch | None = None,
) -> list[TableRow]:
    """Train, tune and test models alike; return one row for each, the best NDCG first.

    `models` are names of presets and baselines, configs of spherec (`Training` or `CML`), and baselines of your own
    (see `Baseline`); by default our main presets and all built-in baselines. `folder` keeps what is done, so that
    nothing is run twice; what it holds of this study is in the table, too. With `test`, models are tested on that
    part, and there are no folds. `metrics` are the columns of the table, built-in by name or of your own. The figures
    of a row are in percent where the metric's `percent` is True: an NDCG of 0.128 is 12.8. A part of your own whose
    code has changed since it was recorded is run again.
    """
    if not isinstance(data, Interactions):
        raise ArgumentError(f"data must be Interactions, got {type(data).__name__}; Interactions.from_frame makes some")
    plan = ComparisonPlan(
        tuple(find_models(default_models() if models is None else models)),
        folds=folds,
        k=k,
        trials=trials,
        validation=validation,
        seed=seed,
        metrics=COMPARED_METRICS if metrics is None else find_metrics(metrics),
    )
    comparison = Comparison(plan, data, Path(folder), test=test)
    results = comparison.run(device=resolve(device), workers=workers, watch=watch)
    if comparison.failed:
        why = "; ".join(f"{model}: {error}" for model, error in comparison.failed.items())
        raise TrainingError(
            f"some models could not be fit ({why}); the others are recorded: run it again without these models"
        )
    return summarize_comparison(results, comparison.user_values, plan.metrics)


@dataclass(frozen=True)
class ComparisonPlan:
    """Plan of a comparison: the models, the split, the search and the metrics."""

    models: tuple[ComparedModel, ...]
    folds: int = 4
    "Number of parts that each user's items are dealt over; ignored where a test part is given."
    k: int = 50
    "Length of the lists."
    trials: int = 10
    "Number of settings that each model is tried with on each fold."
    validation: float = 0.05
    "Share of each user's training items that settings are chosen on."
    seed: int = 0
    "Seed of the split, of the settings that are drawn, of the models."
    metrics: tuple[Metric, ...] = COMPARED_METRICS
    "Columns of the table."

    def __post_init__(self) -> None:
        check_counts(self, folds=2, k=1, trials=1, seed=0)
        check_validation(self.validation)

    @property
    def computed(self) -> tuple[Metric, ...]:
        """All metrics that are recorded, built-in ones first."""
        return METRICS + self._own

    @property
    def identity(self) -> dict[str, Any]:
        """Facts that decide the results, besides data, split and model."""
        own = self._own
        names = {"metrics": [metric.name for metric in own], "metrics_code": hash_own_code(*own)} if own else {}
        return {"k": self.k, "validation": self.validation, "seed": self.seed, **names}

    @property
    def _own(self) -> tuple[Metric, ...]:
        built_in = {metric.name for metric in METRICS}
        return tuple(metric for metric in self.metrics if metric.name not in built_in)


class Comparison:
    """A plan on some data, with its records in a folder. What is recorded is not run again."""

    def __init__(
        self, plan: ComparisonPlan, data: Interactions, folder: Path, *, test: Interactions | None = None
    ) -> None:
        self.plan = plan
        self.parts: Sequence[Fold]
        if test is None:
            self.parts = splits.k_fold(data, plan.folds, seed=plan.seed)
            self._split: dict[str, Any] = {"data": data_id(data), "folds": plan.folds}
        else:
            given = splits.given(data, test)
            self.parts = [given]
            self._split = {"data": data_id(given.train), "test": data_id(given.test)}
        # Once, before anything is run: a part of the user's own may keep what it has learned.
        self._plan_identity = plan.identity
        self._code = {model.name: code for model in plan.models if (code := hash_own_code(*model.parts))}
        self._folder = folder
        self.user_values = UserValues(folder)
        self._results = RecordFile(folder / "records.jsonl", Result)
        self._trials = RecordFile(folder / "trials.jsonl", TrialRecord)
        self._inner = cache(self._cut)
        self.failed: dict[str, str] = {}
        "Models that could not be fit, and why."

    def results(self) -> list[Result]:
        """Return all that is recorded of this plan, also of models that it does not name."""
        known = {result.key: result for result in self._results}
        models = {model.name: model for model in (*find_models(known_models()), *self.plan.models)}
        keys = [self._blank_result(model, fold).key for model in models.values() for fold in range(len(self.parts))]
        return [known[key] for key in keys if key in known]

    def missing(self, folds: Iterable[int] | None = None) -> list[tuple[ComparedModel, list[int]]]:
        """Return the models of which something is not recorded yet, with the folds (of those named)."""
        known = {result.key for result in self._results}
        wanted = range(len(self.parts)) if folds is None else list(folds)
        missing = [
            (model, [fold for fold in wanted if self._blank_result(model, fold).key not in known])
            for model in self.plan.models
        ]
        return [(model, some) for model, some in missing if some]

    def runs_left(self, folds: Iterable[int] | None = None) -> int:
        """Return the number of fits that are left at most: trials and tests."""
        return sum(len(self._settings_to_try(model, fold)) + 1 for model, some in self.missing(folds) for fold in some)

    def run(
        self,
        *,
        device: torch.device,
        folds: Iterable[int] | None = None,
        workers: int | None = None,
        watch: Watch | None = None,
        needs_all: bool = True,
    ) -> list[Result]:
        """Run what is missing, on these folds or on all; return everything that is recorded then.

        A model that lacks a package or cannot take the data is an error, unless not all are needed.
        """
        workers = workers_for(workers, device)
        self.failed.clear()
        missing = [(model, some) for model, some in self.missing(folds) if self._can_run(model, needs_all)]
        if missing:
            UserValues.check_packages()
        for model, some in missing:
            for fold in some if model.has_choices else []:
                self._inner(fold)  # cut before several ask for it at once
        self._make_folder()
        report = watch or (lambda _: None)
        for models, some in _share_fits(missing):
            model = models[0]
            where = model.device_for(device)
            context = FitContext(k=self.plan.k, seed=self.plan.seed, device=where)
            environment = {**environment_of(where), **model.versions()}
            at_once = workers if model.runs_in_parallel else 1
            try:
                trials = self._run_trials(model, some, context, environment, at_once, report)
                for fold in some:  # one after the other, so that time and memory are its own
                    self._test(models, fold, trials[fold], context, environment, report)
            except TrainingError as error:  # the other models may do better
                self.failed |= dict.fromkeys((one.name for one in models), str(error))
        return self.results()

    def _can_run(self, model: ComparedModel, is_needed: bool) -> bool:
        try:
            model.check(self.parts[0].train)
        except SpherecError as error:
            if is_needed:
                raise
            self.failed[model.name] = str(error)
        return model.name not in self.failed

    def _make_folder(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"cannot make the folder {self._folder} ({error.strerror}); choose another") from None

    def _run_trials(
        self,
        model: ComparedModel,
        folds: Sequence[int],
        context: FitContext,
        environment: dict[str, str],
        workers: int,
        watch: Watch,
    ) -> dict[int, list[Trial]]:
        """Return the trials of a model on these folds, running those that are not recorded."""
        known = {record.key: record for record in self._trials}

        def do(blank: TrialRecord) -> TrialRecord:
            stage = Stage(f"{model.name} trial {blank.trial.number + 1}", blank.fold, "choosing")
            watch(stage)
            done = known.get(blank.key)
            if done is None:
                fit = partial(
                    model.fit_validated, settings=blank.trial.settings, context=_reporting(context, watch, stage)
                )
                part = self._inner(blank.fold)
                trial, _ = run_trial(part, blank.trial.settings, fit, k=self.plan.k, metrics=self.plan.computed)
                done = replace(blank, trial=replace(trial, number=blank.trial.number))
                self._trials.add(done)
            watch(replace(stage, doing="done"))
            return done

        blanks = [
            TrialRecord(model.name, fold, self._identity(model), Trial(settings, number=number), environment)
            for fold in folds
            for number, settings in enumerate(self._settings_to_try(model, fold))
        ]
        done = run_all([partial(do, blank) for blank in blanks], workers, context.device)
        return {fold: [record.trial for record in done if record.fold == fold] for fold in folds}

    def _test(
        self,
        models: Sequence[ComparedModel],
        fold: int,
        trials: Sequence[Trial],
        context: FitContext,
        environment: dict[str, str],
        watch: Watch,
    ) -> None:
        """Fit models that share a fit with the best settings on all training data, and test each of them.

        Only here the test pairs are looked at.
        """
        model, part = models[0], self.parts[fold]
        stage = Stage(model.name, fold, "training")
        watch(stage)
        settings = self._choose(model, fold, trials)
        with measure_peak(context.device) as growth:
            began = time.perf_counter()
            with enough_memory():
                fitted = model.fit(part.train, settings, _reporting(context, watch, stage))
            if context.device.type == "cuda":
                torch.cuda.synchronize(context.device)
            seconds = time.perf_counter() - began
        for one in models:
            stage = Stage(one.name, fold, "testing")
            watch(stage)
            with enough_memory():
                scores = evaluate(one.ask(fitted), part.train, part.test, k=self.plan.k, metrics=self.plan.computed)
            blank = self._blank_result(one, fold)
            result = replace(
                blank,
                settings=settings,
                trials=list(trials),
                scores=scores.summary(),
                seconds={"choosing": round(sum(trial.seconds for trial in trials), 3), "training": round(seconds, 4)},
                environment=environment,
                peak_mb=None if growth.mb is None else round(growth.mb, 1),
                peak_of="allocated on the GPU" if context.device.type == "cuda" else "resident in the process",
                run=f"{zlib.crc32(blank.key.encode()):08x}",
            )
            self._keep(result, scores)
            watch(replace(stage, doing="done"))

    def _keep(self, result: Result, scores: Scores) -> None:
        """Record a result with the values of single users."""
        names = {metric.name: per_user_name(metric) for metric in self.plan.metrics}
        of_users = scores.per_user.values
        values = {name: of_users[per_user] for name, per_user in names.items() if per_user in of_users}
        self.user_values.save(result, scores.per_user.users, values)
        self._results.add(result)

    def _choose(self, model: ComparedModel, fold: int, trials: Sequence[Trial]) -> dict[str, Any]:
        if not trials:
            return self._draw(model, fold)[0]
        best = best_trial(trials)
        if best is None:
            raise TrainingError(f"{model.name} learned nothing with any of its settings: {trials[0].failed}")
        return best.refit

    def _cut(self, fold: int) -> Fold:
        """Cut the training part of a fold in two: to learn from, and to choose on."""
        less = "take models with nothing to choose, such as most-popular"
        more = "" if "test" in self._split else ", or more folds, which leave more items to train on"
        train, plan = self.parts[fold].train, self.plan
        return validation_part(train, plan.validation, seed=plan.seed, otherwise=less + more)

    def _settings_to_try(self, model: ComparedModel, fold: int) -> list[dict[str, Any]]:
        return self._draw(model, fold) if model.has_choices else []

    def _draw(self, model: ComparedModel, fold: int) -> list[dict[str, Any]]:
        plan = self.plan
        return draw_settings(model.search_space, plan.trials, seed=plan.seed, name=model.name, fold=fold)

    def _identity(self, model: ComparedModel) -> dict[str, Any]:
        """Return what decides a trial, besides its settings."""
        code = {"code": self._code[model.name]} if model.name in self._code else {}
        return {**self._split, **self._plan_identity, "base": {**model.fixed, **code}}

    def _blank_result(self, model: ComparedModel, fold: int) -> Result:
        """Return the record of a test before it is run."""
        space = {name: list(values) for name, values in model.search_space.items()}
        identity = {**self._identity(model), "trials": self.plan.trials, "space": space}
        return Result("compare", model.name, fold, identity, is_ours=model.is_ours)


def _share_fits(
    missing: Sequence[tuple[ComparedModel, list[int]]],
) -> list[tuple[list[ComparedModel], list[int]]]:
    """Put models together that are one fit and miss the same folds."""
    shared: dict[object, tuple[list[ComparedModel], list[int]]] = {}
    for model, folds in missing:
        shared.setdefault((model.fit_key, *folds), ([], folds))[0].append(model)
    return list(shared.values())


def draw_settings(space: SearchValues, trials: int, *, seed: int, name: str, fold: int) -> list[dict[str, Any]]:
    """Draw combinations of values at random, the default first and none twice; all of them if they are fewer.

    What is drawn for one model and fold does not depend on any other.
    """
    if not isinstance(trials, int) or isinstance(trials, bool) or trials < 1:
        raise ArgumentError(f"trials must be a whole number >= 1, got {quote(trials)}")
    size = math.prod(len(values) for values in space.values())
    others = rng.stream(seed, f"settings of {name}", fold).permutation(size - 1)[: trials - 1] + 1
    return [_combination(space, int(number)) for number in (0, *others)]


def _combination(space: SearchValues, number: int) -> dict[str, Any]:
    """Return the combination of this number; 0 has the first value of every setting."""
    chosen = {}
    for name, values in space.items():
        number, at = divmod(number, len(values))
        chosen[name] = values[at]
    return chosen


def _reporting(context: FitContext, watch: Watch, stage: Stage) -> FitContext:
    """Return the context of a run that reports its epochs."""
    return replace(context, on_epoch=lambda epoch, epochs: watch(replace(stage, epoch=epoch, epochs=epochs)))
