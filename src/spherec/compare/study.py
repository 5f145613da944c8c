"""A comparison: the same folds, number of trials, validation part and test for every model."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from spherec.compare.contender import Contender, How
from spherec.compare.contenders import contenders, known_models
from spherec.compare.record import Folder, Result, Trial
from spherec.compare.search import draws
from spherec.data import splits
from spherec.data.interactions import Interactions
from spherec.data.splits import Fold
from spherec.errors import ArgumentError, SpherecError, TrainingError
from spherec.evaluation import evaluate, validation_part
from spherec.experiments.environment import environment_of
from spherec.experiments.pool import run_all, workers_for
from spherec.experiments.runner import Stage, Watch, name_of
from spherec.memory import enough_memory, measure_peak


@dataclass(frozen=True)
class Study:
    """What is compared, and how."""

    models: tuple[str, ...]
    "Our presets and peers, by name."
    folds: int = 4
    "How many parts each user's items are dealt over; of no account where a test part is given."
    k: int = 50
    "Length of the lists."
    trials: int = 10
    "Settings that each model is tried with on each fold."
    validation: float = 0.05
    "Share of each user's training items that settings are chosen on."
    seed: int = 0
    "Of the split, of the settings drawn, of the models."

    def __post_init__(self) -> None:
        for name, least in (("folds", 2), ("k", 1), ("trials", 1), ("seed", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ArgumentError(f"{name} must be a whole number >= {least}, got {value!r}")
        if not isinstance(self.validation, float) or not 0 < self.validation < 1:
            raise ArgumentError(f"validation must be a share between 0 and 1, got {self.validation!r}")
        contenders(self.models)


class Comparison:
    """A study on some data, with what is recorded of it in a folder. What is recorded is not run again."""

    def __init__(self, study: Study, data: Interactions, folder: Path, *, test: Interactions | None = None) -> None:
        self.study = study
        self.parts: Sequence[Fold]
        if test is None:
            self.parts = splits.k_fold(data, study.folds, seed=study.seed)
            self._split: dict[str, Any] = {"data": name_of(data), "folds": study.folds}
        else:
            given = splits.given(data, test)
            self.parts = [given]
            self._split = {"data": name_of(given.train), "test": name_of(given.test)}
        self.folder = Folder(folder)
        self._results, self._trials = self.folder.results, self.folder.trials
        self._inner = cache(self._cut)
        self.failed: dict[str, str] = {}
        "Models that could not be fit, and why."

    def results(self) -> list[Result]:
        """All that is recorded of this study, of models that it does not name, too."""
        known = {result.key: result for result in self._results}
        keys = [
            self._blank(contender, fold).key
            for contender in contenders(known_models())
            for fold in range(len(self.parts))
        ]
        return [known[key] for key in keys if key in known]

    def left(self, folds: Iterable[int] | None = None) -> list[tuple[Contender, list[int]]]:
        """The models of which something is not recorded yet, and on which folds (of those named)."""
        known = {result.key for result in self._results}
        wanted = range(len(self.parts)) if folds is None else list(folds)
        missing = [
            (contender, [fold for fold in wanted if self._blank(contender, fold).key not in known])
            for contender in contenders(self.study.models)
        ]
        return [(contender, some) for contender, some in missing if some]

    def runs_left(self, folds: Iterable[int] | None = None) -> int:
        """How many fits that takes at most: trials and tests."""
        return sum(len(self._tried(contender, fold)) + 1 for contender, some in self.left(folds) for fold in some)

    def run(
        self,
        *,
        device: torch.device,
        folds: Iterable[int] | None = None,
        workers: int | None = None,
        watch: Watch | None = None,
        needs_all: bool = True,
    ) -> list[Result]:
        """Run what is left, of these folds or of all; everything that is recorded then.

        A model that lacks a package or cannot take the data is an error, unless not all are needed.
        """
        workers = workers_for(workers, device)
        self.failed.clear()
        left = [(contender, some) for contender, some in self.left(folds) if self._is_able(contender, needs_all)]
        for contender, some in left:
            for fold in [] if contender.is_settled else some:
                self._inner(fold)  # cut before several ask for it at once
        self.folder.make()
        tell = watch or (lambda _: None)
        for contender, some in left:
            where = contender.device(device)
            how = How(k=self.study.k, seed=self.study.seed, device=where)
            environment = {**environment_of(where), **contender.versions()}
            try:
                tried = self._try(contender, some, how, environment, workers if contender.at_once else 1, tell)
                for fold in some:  # one after the other, so that time and memory are its own
                    self._test(contender, fold, tried[fold], how, environment, tell)
            except TrainingError as error:  # the others may do better
                self.failed[contender.name] = str(error)
        return self.results()

    def _is_able(self, contender: Contender, is_needed: bool) -> bool:
        try:
            contender.refuse(self.parts[0].train)
        except SpherecError as error:
            if is_needed:
                raise
            self.failed[contender.name] = str(error)
        return contender.name not in self.failed

    def _try(
        self,
        contender: Contender,
        folds: Sequence[int],
        how: How,
        environment: dict[str, str],
        workers: int,
        tell: Watch,
    ) -> dict[int, list[Trial]]:
        """The trials of a model on these folds, running those that are not recorded."""
        known = {trial.key: trial for trial in self._trials}

        def do(blank: Trial, number: int) -> Trial:
            stage = Stage(f"{contender.name} trial {number}", blank.fold, "choosing")
            tell(stage)
            done = known.get(blank.key)
            if done is None:
                told = replace(how, told=lambda epoch, epochs: tell(replace(stage, epoch=epoch, epochs=epochs)))
                done = self._one_trial(contender, blank, told)
                self._trials.add(done)
            tell(replace(stage, doing="done"))
            return done

        blanks = [
            Trial(contender.name, fold, self._identity(contender), settings, {}, {}, 0.0, environment)
            for fold in folds
            for settings in self._tried(contender, fold)
        ]
        numbers = [number for fold in folds for number in range(1, len(self._tried(contender, fold)) + 1)]
        tasks = [partial(do, blank, number) for blank, number in zip(blanks, numbers, strict=True)]
        done = run_all(tasks, workers, how.device)
        return {fold: [trial for trial in done if trial.fold == fold] for fold in folds}

    def _one_trial(self, contender: Contender, blank: Trial, how: How) -> Trial:
        part, began = self._inner(blank.fold), time.perf_counter()
        try:
            with enough_memory():
                model, refit = contender.tried(part, blank.settings, how)
                scores = evaluate(model, part.train, part.test, k=self.study.k).summary()
        except TrainingError as error:  # settings under which it does not learn are no good, and that is all
            return replace(blank, failed=str(error), seconds=time.perf_counter() - began)
        return replace(blank, refit=dict(refit), scores=scores, seconds=time.perf_counter() - began)

    def _test(
        self,
        contender: Contender,
        fold: int,
        trials: Sequence[Trial],
        how: How,
        environment: dict[str, str],
        tell: Watch,
    ) -> None:
        """Fit with the best settings on the whole training part, and test. Only here the test pairs are looked at."""
        stage = Stage(contender.name, fold, "training")
        tell(stage)
        settings = best_of(trials).refit if trials else self._drawn(contender, fold)[0]
        part = self.parts[fold]
        told = replace(how, told=lambda epoch, epochs: tell(replace(stage, epoch=epoch, epochs=epochs)))
        with measure_peak(how.device) as growth:
            began = time.perf_counter()
            with enough_memory():
                model = contender.fit(part.train, settings, told)
            if how.device.type == "cuda":
                torch.cuda.synchronize(how.device)
            seconds = time.perf_counter() - began
        tell(replace(stage, doing="testing"))
        with enough_memory():
            scores = evaluate(model, part.train, part.test, k=self.study.k)
        result = replace(
            self._blank(contender, fold),
            settings=settings,
            trials=[
                {"settings": one.settings, "refit": one.refit, "scores": one.scores, "failed": one.failed}
                for one in trials
            ],
            scores=scores.summary(),
            fit_seconds=round(seconds, 4),
            peak_mb=None if growth.mb is None else round(growth.mb, 1),
            peak_of="allocated on the GPU" if how.device.type == "cuda" else "resident in the process",
            choosing_seconds=round(sum(one.seconds for one in trials), 3),
            environment=environment,
        )
        self.folder.save_users(result, scores.per_user)
        self._results.add(result)
        tell(replace(stage, doing="done"))

    def _cut(self, fold: int) -> Fold:
        """The training part of a fold in two: to learn from, and to choose on."""
        less = "take models with nothing to choose, such as most-popular"
        more = "" if "test" in self._split else ", or more folds, which leave more items to train on"
        train, study = self.parts[fold].train, self.study
        return validation_part(train, study.validation, seed=study.seed, otherwise=less + more)

    def _tried(self, contender: Contender, fold: int) -> list[dict[str, Any]]:
        """The settings to try; none where there is nothing to choose."""
        return [] if contender.is_settled else self._drawn(contender, fold)

    def _drawn(self, contender: Contender, fold: int) -> list[dict[str, Any]]:
        study = self.study
        return draws(contender.space, study.trials, seed=study.seed, name=contender.name, fold=fold)

    def _identity(self, contender: Contender) -> dict[str, Any]:
        """Of a trial."""
        study = self.study
        rest = {"k": study.k, "validation": study.validation, "seed": study.seed}
        return {**self._split, **rest, "base": dict(contender.base)}

    def _blank(self, contender: Contender, fold: int) -> Result:
        """The record of a test before it is run."""
        space = {name: list(values) for name, values in contender.space.items()}
        identity = {**self._identity(contender), "trials": self.study.trials, "space": space}
        return Result(contender.name, contender.is_ours, fold, identity, {}, [], {}, 0.0, None, "", 0.0, {})


def best_of(trials: Sequence[Trial]) -> Trial:
    """The one with the highest NDCG on the validation part; of equal ones the first."""
    learned = [trial for trial in trials if not trial.failed]
    if not learned:
        raise TrainingError(f"{trials[0].model} learned nothing with any of its settings: {trials[0].failed}")
    return max(learned, key=lambda trial: trial.scores["ndcg"])
