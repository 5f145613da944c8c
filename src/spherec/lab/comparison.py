"""Compare models: the same folds, number of trials, validation part and test for every model.

Each model is searched at random: its default settings first, then others drawn from `search_space`, none twice. The
best by NDCG on the validation part is fit again on all training data and tested once.
"""

import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spherec.data import splits
from spherec.data.container import checksum
from spherec.data.interactions import Interactions
from spherec.data.splits import Fold, check_share
from spherec.device import DeviceName, enough_memory, measure_peak, resolve
from spherec.errors import ArgumentError, SpherecError, TrainingError, check_count, require_polars
from spherec.evaluation import METRICS, ItemLister, Metric, Scores, evaluate, validation_part
from spherec.evaluation.metrics import average_precision, find_metrics, median_popularity, ndcg, recall
from spherec.geometry import DenseVectors
from spherec.lab import tables
from spherec.lab.models import ComparedModel, FitContext, versions_of
from spherec.lab.records import RecordFile, Result, Trial, UserValues, data_id, environment_of
from spherec.lab.registry import default_models, find_models, known_models
from spherec.lab.runs import Stage, Watch, best_trial, run_all, run_trial
from spherec.lab.tables import TableRow, summarize

COMPARED_METRICS: tuple[Metric, ...] = (average_precision, ndcg, recall, median_popularity)
"""The columns of a comparison's table, by default."""


def compare(
    data: Interactions,
    models: Iterable[object] | None = None,
    *,
    folder: str | PathLike[str],
    test: Interactions | None = None,
    device: DeviceName = "auto",
    **plan: Any,
) -> list[TableRow]:
    """Train, tune and test models alike; return one row for each, the best NDCG first.

    `models` are names of presets and baselines, configs of spherec (`Training` or `CML`), and baselines of your own
    (see `spherec.lab.models`); by default our main presets and all built-in baselines. `folder` keeps what is done, so
    that nothing is run twice; what it holds of this study is in the table, too. With `test`, models are tested on that
    part, and there are no folds. The other arguments are those of `ComparisonPlan`: folds=4, k=50, trials=10, … The
    figures of a row are in percent where the metric's `percent` is True: an NDCG of 0.128 is 12.8. If you change the
    code of a part of your own, change its `version`, too, so that it is run again.
    """
    found = tuple(find_models(default_models() if models is None else models))
    checked = ComparisonPlan(found, **plan)
    comparison = Comparison(checked, data, Path(folder), test=test)
    results = comparison.run(device=resolve(device))
    comparison.raise_if_failed()
    return summarize(results, comparison.plan.metrics, comparison.user_values)


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
    "Columns of the table; built-in metrics may be given by name."
    workers: int | None = None
    "Number of trials of ours at once; by default 8 on a GPU, else 1."

    def __post_init__(self) -> None:
        names = [model.name for model in self.models]
        if len(set(names)) < max(len(names), 1):
            raise ArgumentError(f"a comparison needs models, each of another name, got {', '.join(names) or 'none'}")
        check_count("k", self.k)
        check_count("trials", self.trials)
        check_count("workers", 1 if self.workers is None else self.workers)
        check_share("validation", self.validation)
        object.__setattr__(self, "metrics", find_metrics(self.metrics))

    @property
    def own_metrics(self) -> tuple[Metric, ...]:
        """The metrics of the user's own, which are recorded in addition to all built-in ones."""
        return tuple(metric for metric in self.metrics if metric not in METRICS)


class Comparison:
    """A plan on some data, with its records in a folder. What is recorded is not run again."""

    study = "compare"
    others: Iterable[object] = known_models()
    "Models that may be recorded besides those of the plan."
    fits_alone = True
    "True if the last fits are run one after the other, so that time and memory are those of one."

    def __init__(
        self,
        plan: ComparisonPlan,
        data: Interactions,
        folder: Path,
        *,
        test: Interactions | None = None,
        only_folds: Iterable[int] | None = None,
    ) -> None:
        self.plan = plan
        self.parts: Sequence[Fold]
        if test is None:
            self.parts = splits.k_fold(data, plan.folds, seed=plan.seed)
            self.split: dict[str, Any] = {"data": data_id(data), "folds": plan.folds}
        else:
            self.parts = [splits.given(data, test)]
            self.split = {"data": data_id(self.parts[0].train), "test": data_id(self.parts[0].test)}
        self.folds = sorted(set(range(len(self.parts)) if only_folds is None else only_folds))
        "The folds that are run."
        if not self.folds or not set(self.folds) <= set(range(len(self.parts))):
            raise ArgumentError(f"folds to run must be numbers in 0 … {len(self.parts) - 1}, got {self.folds}")
        self.sizes = {"users": data.n_users, "items": data.n_items, "pairs": len(data)}
        self.sizes |= {} if test is None else {"test pairs": len(test)}
        self.user_values: UserValues | None = UserValues(folder)
        self.failed: dict[str, str] = {}
        "Models that could not be fit, and why."
        self.estimates: dict[str, float | None] = {}
        "Seconds that `estimate` expects of each model."
        self._results, self._trials = RecordFile(folder / "records.jsonl"), RecordFile(folder / "trials.jsonl")
        # The training part of a fold in two: to learn from, and to choose on.
        self._inner = cache(lambda fold: validation_part(self.parts[fold].train, plan.validation, seed=plan.seed))

    def results(self) -> list[Result]:
        """Return all that is recorded of this plan, also of models that it does not name."""
        known = self._results.by_key()
        models = {model.name: model for model in (*find_models(self.others), *self.plan.models)}
        keys = [self.blank_result(model, fold).key for model in models.values() for fold in range(len(self.parts))]
        return [known[key] for key in keys if key in known]

    def missing(self) -> list[tuple[ComparedModel, list[int]]]:
        """Return the models of which something is not recorded yet, with the folds."""
        known = self._results.by_key().keys()
        missing = [
            (model, [fold for fold in self.folds if self.blank_result(model, fold).key not in known])
            for model in self.plan.models
        ]
        return [(model, some) for model, some in missing if some]

    def runs_left(self) -> int:
        """Return the number of fits that are left at most: trials and tests."""
        return sum(len(self._settings_to_try(model, fold)) + 1 for model, some in self.missing() for fold in some)

    def estimate(self, *, device: torch.device, needs_all: bool = False) -> dict[str, float | None]:
        """Return the seconds that what is missing will take, by model: measured on a small piece of each one's work.

        None where it is not known, as of a baseline of the user's own. Models that cannot be fit are as in `run`.
        """
        self.estimates.clear()
        self.failed.clear()
        for model, some in [each for each in self.missing() if self._can_run(each[0], needs_all)]:
            with suppress(SpherecError):
                self.estimates[model.name] = self._expect(model, some, self._context(model, device))
        return self.estimates

    def run(
        self,
        *,
        device: torch.device,
        watch: Watch | None = None,
        needs_all: bool = True,
        after: Callable[[str], None] = lambda _: None,
    ) -> list[Result]:
        """Run what is missing; return everything that is recorded then.

        A model that lacks a package or cannot take the data is an error, unless not all are needed. Models that are
        expected to take less time run first; `after` is called with the name of each when it is done.
        """
        self.failed.clear()
        missing = [(model, some) for model, some in self.missing() if self._can_run(model, needs_all)]
        missing.sort(key=lambda one: round(self.estimates.get(one[0].name) or 1e9))
        if missing and self.user_values is not None:
            require_polars("the file of users' values")
        for model, some in missing:
            for fold in some if model.has_choices else []:
                self._inner(fold)  # cut before several ask for it at once
        self._results.path.parent.mkdir(parents=True, exist_ok=True)
        for model, some in missing:
            context = self._context(model, device)
            self._watch = watch or (lambda _: None)
            packages = {package: version(package) for package in model.packages}
            self._environment = environment_of(context.device) | packages
            try:
                self._run_model(model, some, context)
                after(model.name)
            except TrainingError as error:  # the other models may do better
                self.failed[model.name] = str(error)
        return self.results()

    def raise_if_failed(self) -> None:
        if self.failed:
            why = "; ".join(f"{model}: {error}" for model, error in self.failed.items())
            raise TrainingError(
                f"some models could not be fit ({why}); the others are recorded: run it again without these models"
            )

    def page(self, title: str, command: str, table: Sequence[TableRow]) -> str:
        """Return a page in Markdown: the table, how it was made, and which settings were chosen."""
        plan, results = self.plan, self.results()
        sizes = ", ".join(f"{count:,} {name}" for name, count in self.sizes.items())
        cells = [tables.page_cells(row, plan.metrics) for row in table]
        for row, texts in zip(table, cells, strict=True):
            texts["model"] = f"**{row.model}**" if row.is_ours else row.model
        baseline = tables.best_baseline(results)
        test = f"{tables.describe_test(baseline)} Each user counts with their mean over folds. " if baseline else ""
        parts = [
            f"# {title}: models compared",
            f"{sizes}. Lists of {plan.k}. {tables.describe_folds(table)}",
            tables.to_markdown(list(cells[0]), [list(texts.values()) for texts in cells]),
            f"{test}fit s, peak MB: the last fit alone, mean over folds; memory of the GPU, or of "
            "the process where a model ran without one.",
            f"For each model and fold, up to {plan.trials} settings were tried on a validation part of "
            f"{100 * plan.validation:g} % of the training pairs; the best by NDCG was fit again on all of them and "
            "tested once.",
            f"```sh\n{command}\n```",
            f"## Settings chosen\n\n{tables.chosen_settings(table, results)}",
            *filter(None, [tables.describe_ends(results)]),
            f"Made by {tables.describe_environments(results)}.",
        ]
        return "\n\n".join(parts) + "\n"

    def identity(self, model: ComparedModel) -> dict[str, Any]:
        """Return what decides a trial, besides its settings."""
        plan, own = self.plan, self.plan.own_metrics
        named = {"metrics": [metric.name for metric in own], **versions_of(*own)} if own else {}
        facts = {"k": plan.k, "validation": plan.validation, "seed": plan.seed, **named}
        return {**self.split, **facts, "base": dict(model.fixed)}

    def blank_result(self, model: ComparedModel, fold: int) -> Result:
        space = {name: list(values) for name, values in model.search_space.items()}
        identity = {**self.identity(model), "trials": self.plan.trials, "space": space}
        return Result(self.study, model.name, fold, identity, is_ours=model.is_ours)

    def _context(self, model: ComparedModel, device: torch.device) -> FitContext:
        where = torch.device("cpu") if model.on_cpu else device
        return FitContext(k=self.plan.k, seed=self.plan.seed, device=where)

    def _expect(self, model: ComparedModel, folds: Sequence[int], context: FitContext) -> float | None:
        """Return the seconds of all trials of a model that are missing on these folds, and of its tests."""
        known, total, train = self._trials.by_key(), 0.0, self.parts[folds[0]].train
        trial_users = self._inner(folds[0]).test.active_users if model.has_choices else 0
        held_out = np.zeros(len(train), bool)  # the last pair of each user, to make lists without a look at the test
        held_out[train.indptr[1:][train.items_per_user > 1] - 1] = True
        part = Fold(train.filter(~held_out), train.filter(held_out))
        drawn = {fold: model.draw(self.plan.trials, seed=self.plan.seed, fold=fold) for fold in folds}
        usual = drawn[folds[0]][0]
        with enough_memory():
            cost = model.measure(part, usual, context)
        if cost is None:
            return None
        for fold in folds:
            fits = []
            for settings in drawn[fold]:
                share = settings[model.costly] / usual[model.costly] if model.costly in settings else 1.0
                epochs, lists = model.count_epochs(settings, train)
                fits.append(share * (cost.start + epochs * cost.epoch))
                if model.has_choices and self._trial(model, fold, settings).key not in known:
                    total += fits[-1] + lists * share * cost.user * trial_users
            total += float(np.mean(fits)) + cost.user * self.parts[fold].test.active_users  # the best is not known yet
        return total

    def _trial(self, model: ComparedModel, fold: int, settings: dict[str, Any]) -> Result:
        return Result("trial", model.name, fold, {**self.identity(model), "settings": settings}, settings)

    def _can_run(self, model: ComparedModel, is_needed: bool) -> bool:
        try:
            model.check(self.parts[0].train)
        except SpherecError as error:
            if is_needed:
                raise
            self.failed[model.name] = str(error)
        return model.name not in self.failed

    def _run_model(self, model: ComparedModel, folds: Sequence[int], context: FitContext) -> None:
        """Run all trials of a model, then fit and test it on each fold."""
        known = self._trials.by_key()
        trials = [
            partial(self._try, model, fold, Trial(settings, number=number), known, context)
            for fold in folds
            for number, settings in enumerate(self._settings_to_try(model, fold))
        ]
        workers = self.plan.workers if model.is_ours else 1
        tried = run_all(trials, workers, context.device)
        tests = [
            partial(self._test, model, fold, [one for one in tried if one.fold == fold], context) for fold in folds
        ]
        run_all(tests, 1 if self.fits_alone else workers, context.device)

    def _try(
        self, model: ComparedModel, fold: int, trial: Trial, known: Mapping[str, Result], context: FitContext
    ) -> Result:
        """Return the record of a trial, running it unless it is known."""
        settings = dict(trial.settings)
        stage = Stage(f"{model.name} trial {trial.number + 1}", fold, "choosing")
        context = self._begin(stage, context)
        record = self._trial(model, fold, settings)
        done = known.get(record.key)
        if done is None:
            fit, metrics = partial(model.fit_validated, settings=settings, context=context), self._metrics()
            tried, fitted = run_trial(self._inner(fold), settings, fit, k=self.plan.k, metrics=metrics)
            epochs = fitted.history.as_records() if fitted and fitted.history else []
            curve = [epoch for epoch in epochs if epoch["metric"] is not None]
            tried = replace(tried, number=trial.number)
            done = replace(record, trials=[tried], environment=self._environment, curve=curve)
            self._trials.add(done)
        self._watch(replace(stage, doing="done"))
        return done

    def _test(self, model: ComparedModel, fold: int, tried: Sequence[Result], context: FitContext) -> None:
        """Fit a model with the best settings on all training data, and test it: only here test pairs are looked at."""
        part, device = self.parts[fold], context.device
        trials = [record.trials[0] for record in tried]
        best = best_trial(trials, mmr_at_most=model.mmr_at_most)
        if trials and best is None:
            raise TrainingError(f"{model.name} learned nothing with any of its settings: {trials[0].failed}")
        settings = best.refit if best else model.draw(1, seed=self.plan.seed, fold=fold)[0]
        clock = [time.perf_counter()]
        with measure_peak(device) as growth, enough_memory():
            fitted = model.fit(part.train, settings, self._begin(Stage(model.name, fold, "training"), context))
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            clock.append(time.perf_counter())
        self._begin(stage := Stage(model.name, fold, "testing"), context)
        with enough_memory():
            scores = self._score(fitted, part)
        clock.append(time.perf_counter())
        times = (sum(trial.seconds for trial in trials), clock[1] - clock[0], clock[2] - clock[1])
        blank = self.blank_result(model, fold)
        result = replace(
            blank,
            settings=settings,
            trials=trials,
            scores=scores.summary(),
            seconds=dict(zip(("choosing", "training", "testing"), (round(each, 4) for each in times), strict=True)),
            environment=self._environment,
            peak_mb=None if growth.mb is None or not self.fits_alone else round(growth.mb, 1),
            peak_of="allocated on the GPU" if device.type == "cuda" else "resident in the process",
            curve=tried[trials.index(best)].curve if best else [],
            digest=digest_of(fitted) if isinstance(fitted, DenseVectors) else "",
            run=f"{zlib.crc32(blank.key.encode()):08x}",
        )
        self._save(result, scores)
        self._watch(replace(stage, doing="done"))

    def _begin(self, stage: Stage, context: FitContext) -> FitContext:
        """Report a stage, and return the context of its run, which reports its epochs."""
        self._watch(stage)
        return replace(context, on_epoch=lambda done, of: self._watch(replace(stage, epoch=done, epochs=of)))

    def _save(self, result: Result, scores: Scores) -> None:
        if self.user_values is not None:
            known = scores.per_user.values
            values = {metric.name: known[metric.name] for metric in self.plan.metrics if metric.name in known}
            self.user_values.save(result, scores.per_user.users, values)
        self._results.add(result)

    def _score(self, fitted: DenseVectors | ItemLister, part: Fold) -> Scores:
        return evaluate(fitted, part.train, part.test, k=self.plan.k, metrics=self._metrics())

    def _metrics(self) -> tuple[Metric, ...]:
        return METRICS + self.plan.own_metrics

    def _settings_to_try(self, model: ComparedModel, fold: int) -> list[dict[str, Any]]:
        return model.draw(self.plan.trials, seed=self.plan.seed, fold=fold) if model.has_choices else []


def digest_of(vectors: DenseVectors) -> str:
    return checksum(vectors.user_table.cpu().numpy(), vectors.item_table.cpu().numpy())
