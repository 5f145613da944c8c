"""Tune: trials one after the other, each with settings that the ones before make likely to be good.

Poor trials are ended early by the median rule: after each validation, a trial whose best is below the median of the
finished ones at the same epoch. Unlike Hyperband it needs no fixed length of a trial, and trials here end when they
stop improving; and it works from a handful of trials on.
"""

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from typing import Any, Literal, cast

import numpy as np
import torch

from spherec.data.interactions import Interactions
from spherec.data.splits import Fold
from spherec.device import DeviceName, resolve
from spherec.errors import ArgumentError, TrainingError, quote
from spherec.evaluation import Metric, validation_part
from spherec.evaluation.metrics import Formula, median_popularity
from spherec.lab.own_code import hash_own_code
from spherec.lab.search_space import (
    Choices,
    Domain,
    SearchSpace,
    SettingValue,
    default_search,
    parse_searches,
)
from spherec.lab.settings import flatten
from spherec.lab.store import data_id
from spherec.lab.trial import MMR, Trial, best_trial, run_trial, train_validated
from spherec.lab.tuning.goal import Goal
from spherec.lab.tuning.package import optuna
from spherec.lab.tuning.sampler import SeededTPE
from spherec.lab.tuning.storage import open_study, report_database_errors
from spherec.training import EpochRecord, History, Training
from spherec.training.trainer import interruptible

_States = optuna.trial.TrialState

_COMPLETE_BEFORE_PRUNING = 5  # trials, of which at least so many must have been validated at the same epoch:
_VALIDATED_AT_EPOCH = 3
_NEVER_PRUNED = 0.2  # share of the epochs: curves are flat before they rise
_ENOUGH_FOR_IMPORTANCE = 10  # complete trials
_DIGITS = 9  # of values that count as different

TuneEnd = Literal["all trials done", "out of time", "interrupted"]


@dataclass(frozen=True)
class TuneResult:
    """Result of a call of `tune`; another call may continue the study."""

    best: Trial | None
    "The winner; None as long as no trial is complete."
    config: Training | None
    "The winner's config."
    trials: Sequence[Trial]
    "All trials of the study, also of earlier calls, in the order of their numbers."
    ended: TuneEnd
    "Reason why this call ended."
    importance: Mapping[str, float] = field(default_factory=dict)
    "Share of the difference between trials that each field explains; empty where trials are few or alike."


class TuneWatcher:
    """Observer of a study. This one does nothing."""

    def on_epoch(self, number: int, epoch: EpochRecord, history: History) -> None:
        """Take note of how far a trial has come."""

    def on_trial(self, trials: Sequence[Trial], last: Trial) -> None:
        """Take note of a trial that has ended, the last of all trials."""


def tune(
    data: Interactions,
    config: Any = None,
    search: Sequence[str] | Mapping[str, Domain] | None = None,
    *,
    goal: Goal | str | Metric | Formula | None = None,
    trials: int = 50,
    minutes: float | None = None,
    storage: str | PathLike[str] | None = None,
    study: str = "spherec",
    device: DeviceName | torch.device = "auto",
    watcher: TuneWatcher | None = None,
) -> TuneResult:
    """Search the best settings of a config until the study has `trials` trials or `minutes` have passed.

    `config` is a `Training` or a `CML` to begin from, by default the preset "two-stage". `search` names settings and
    their values, such as ["sampler.beta=0.1..1.0", "dim=64,128"]; by default what matters most for the config's loss
    and sampler. `goal` is a `Goal`, or just its metric: a name such as "recall", or a metric of your own. `trials`
    counts those of earlier calls, and no trial begins after `minutes`. `storage` is a file or the
    URL of a database, with which a study is continued later, or run on several machines at once. The config's seed
    decides the split, the training and which settings are tried. Ctrl-C ends the call; the trial in progress waits for
    the next.
    """
    goal = goal if isinstance(goal, Goal) else Goal() if goal is None else Goal(metric=goal)
    if not isinstance(data, Interactions):
        raise ArgumentError(f"data must be Interactions, got {type(data).__name__}; Interactions.from_frame makes some")
    if not isinstance(trials, int) or trials < 1:
        raise ArgumentError(f"trials must be a whole number >= 1, got {quote(trials)}")
    if minutes is not None and not minutes > 0:
        raise ArgumentError(f"minutes must be > 0, got {minutes:g}")
    if not study.strip():
        raise ArgumentError("a study needs a name, got an empty one")
    space = _search_space(config, search)
    where = resolve(device)
    part = validation_part(data, goal.validation, seed=space.base.seed)
    space = replace(space, base=space.base.resolve(part.train))
    with _quiet():
        epochs = space.base.plan(len(part.train)).epochs
        pruner = optuna.pruners.MedianPruner(
            _COMPLETE_BEFORE_PRUNING, round(_NEVER_PRUNED * epochs), n_min_trials=_VALIDATED_AT_EPOCH
        )
        sampler = SeededTPE(space.base.seed, space.start() or {})
        opened = open_study(storage, study, _identity(data, space, goal), sampler, pruner)
        runner = _Runner(opened, space, goal, part, where, watcher or TuneWatcher())
        with report_database_errors(storage):
            ended = runner.run(trials, None if minutes is None else time.monotonic() + 60 * minutes)
            tried = _read_trials(opened, goal)
            importance = _importance(opened)
    best = best_trial(tried, goal.objective.name, goal.mmr_at_most)
    return TuneResult(best, None if best is None else space.config(best.settings), tried, ended, importance)


def _search_space(config: Any, search: Sequence[str] | Mapping[str, Domain] | None) -> SearchSpace:
    base = Training() if config is None else config if isinstance(config, Training) else getattr(config, "config", None)
    if not isinstance(base, Training):
        raise ArgumentError(f"config must be a Training or a CML, got {type(config).__name__}")
    if isinstance(search, str):
        raise ArgumentError(f"search must be a list, got {quote(search)}; give [{quote(search)}]")
    if search is None:
        return SearchSpace.build(base, default_search(base))
    return SearchSpace.build(base, search if isinstance(search, Mapping) else parse_searches(search))


class _Runner:
    """Runs one trial after the other."""

    def __init__(
        self,
        study: "optuna.Study",
        space: SearchSpace,
        goal: Goal,
        part: Fold,
        device: torch.device,
        watcher: TuneWatcher,
    ) -> None:
        self._study, self._space, self._goal = study, space, goal
        self._part, self._device, self._watcher = part, device, watcher
        self._trial: optuna.Trial | None = None  # in progress
        self._is_lost = False  # others have given the trial up, because this process was stopped for a while

    def run(self, trials: int, deadline: float | None) -> TuneEnd:
        failures = (TrainingError, ArgumentError)
        frees = self._device.type == "cuda"  # the memory of a trial before the next: tables may fill half a GPU
        with interruptible() as interrupt:  # between trials, where the database is written
            while len(_read_trials(self._study, self._goal)) < trials:
                if deadline is not None and time.monotonic() >= deadline:
                    return "out of time"
                if interrupt.is_wanted():
                    return "interrupted"
                try:
                    self._study.optimize(self._run_trial, n_trials=1, catch=failures, gc_after_trial=frees)
                except BaseException as error:  # optuna raises another error if Ctrl-C comes while it writes
                    if self._is_lost:
                        continue
                    if KeyboardInterrupt not in (type(error), type(error.__context__)):
                        raise
                    self._put_back()
                    return "interrupted"
                if self._trial is not None:
                    self._report(self._trial.number)
                    self._trial = None
        return "all trials done"

    def _put_back(self) -> None:
        """Let the trial in progress wait for the next call, unless its end was written."""
        if self._trial is not None:
            ended = self._study.tell(self._trial, state=_States.FAIL, skip_if_finished=True)
            if ended.state == _States.FAIL:
                self._study.enqueue_trial(self._trial.params)

    def _run_trial(self, trial: "optuna.Trial") -> float:
        """Return the best validation metric of a config: the objective of the search."""
        self._trial, self._is_lost = trial, False
        try:
            return self._score_trial(trial)
        except optuna.exceptions.UpdateFinishedTrialError:
            self._is_lost = True
            raise

    def _score_trial(self, trial: "optuna.Trial") -> float:
        goal, settings = self._goal, _suggest_all(trial, self._space)

        def give_up(history: History, mmr: float) -> bool:
            look = history.epochs[-1]
            trial.report(goal.rate(look.metric or 0.0, mmr), look.epoch)
            return trial.should_prune()

        try:
            fit = partial(
                train_validated,
                config=self._space.config(settings),
                k=goal.k,
                device=self._device,
                metric=goal.objective,
                progress=lambda epoch, history: self._watcher.on_epoch(trial.number, epoch, history),
                give_up=give_up,
            )
            done, _ = run_trial(self._part, settings, fit, k=goal.k, metrics=(goal.objective, median_popularity))
        except ArgumentError as error:  # settings that do not go together
            done = Trial(settings, failed=str(error))
        if done.failed:
            trial.set_user_attr("why", done.failed)
            raise TrainingError(done.failed)
        value = done.scores[goal.objective.name]
        mmr = float(np.nan_to_num(done.scores[MMR]))  # lists are empty where users have all items
        for name, fact in (("value", value), ("epoch", done.epochs), ("mmr", mmr)):
            trial.set_user_attr(name, fact)
        if goal.mmr_at_most is not None:
            trial.set_constraint("mmr", mmr - goal.mmr_at_most)
        if done.pruned:
            raise optuna.TrialPruned
        return value

    def _report(self, number: int) -> None:
        trials = _read_trials(self._study, self._goal)
        last = next((trial for trial in trials if trial.number == number), None)
        if last is not None:
            self._watcher.on_trial(trials, last)


def _suggest_all(trial: "optuna.Trial", space: SearchSpace) -> dict[str, SettingValue]:
    return {name: _suggest(trial, name, domain) for name, domain in space.domains.items()}


def _suggest(trial: "optuna.Trial", name: str, domain: Domain) -> SettingValue:
    if isinstance(domain, Choices):
        return cast("SettingValue", trial.suggest_categorical(name, domain.values))
    if isinstance(domain.low, int):
        step = int(domain.step or 1)
        return trial.suggest_int(name, domain.low, int(domain.high), step=step, log=domain.log)
    return trial.suggest_float(name, domain.low, domain.high, step=domain.step, log=domain.log)


def _read_trials(study: "optuna.Study", goal: Goal) -> list[Trial]:
    """Return the trials that have ended. Those that were interrupted or whose process was killed have not."""
    trials = []
    for stored in study.get_trials(deepcopy=False, states=(_States.COMPLETE, _States.PRUNED, _States.FAIL)):
        facts = stored.user_attrs
        if stored.state == _States.FAIL and "why" not in facts:
            continue
        trials.append(
            Trial(
                settings=stored.params,
                scores={goal.objective.name: facts["value"], MMR: facts["mmr"]} if "value" in facts else {},
                epochs=facts.get("epoch"),
                seconds=0.0 if stored.duration is None else stored.duration.total_seconds(),
                failed=facts.get("why", ""),
                pruned=stored.state == _States.PRUNED,
                number=stored.number,
            )
        )
    return trials


def _importance(study: "optuna.Study") -> dict[str, float]:
    """Return each field's share, the largest first; nothing where values are, except for rounding, nearly all equal."""
    complete = study.get_trials(deepcopy=False, states=(_States.COMPLETE,))
    values = {round(trial.value, _DIGITS) for trial in complete if trial.value is not None}
    if len(complete) < _ENOUGH_FOR_IMPORTANCE or len(values) == 1:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the best cannot be told from the others
        shares = optuna.importance.get_param_importances(study, normalize=False)
    total = sum(shares.values())
    if not total > 0:  # optuna would give all the same share
        return {}
    return {name: shares[name] / total for name in sorted(shares, key=lambda name: -shares[name])}


def _identity(data: Interactions, space: SearchSpace, goal: Goal) -> dict[str, Any]:
    """Return what must be the same for a study to be continued."""
    code = hash_own_code(goal.objective, space.base.loss, space.base.sampler)
    return {
        "data": data_id(data),
        "the search": ", ".join(f"{name}={domain}" for name, domain in space.domains.items()),
        **flatten(space.base.to_record()),
        "metric": goal.name,
        "validation": goal.validation,
        "mmr_at_most": goal.mmr_at_most,
        **({"the code of your own metric, loss or sampler": code} if code else {}),
    }


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence optuna: the watcher reports."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
