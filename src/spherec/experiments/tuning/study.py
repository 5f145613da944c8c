"""A study: trials one after the other, each at what the ones before make likely to be good.

Poor trials are ended early by the median rule: after each look, a trial whose best is below the median of what the
finished ones had in the same epoch. It asks for no fixed length of a trial, as Hyperband does, and trials here end when
they get no better; and it works from a handful of trials on.
"""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any, cast

import torch

from spherec.data.interactions import Interactions
from spherec.data.manifest import checksum
from spherec.device import DeviceName, resolve
from spherec.errors import ArgumentError, TrainingError
from spherec.training import History
from spherec.training.interrupt import interruptible
from spherec.tuning.attempt import Attempts
from spherec.tuning.goal import Goal
from spherec.tuning.package import optuna
from spherec.tuning.record import Reason, Tried, Tuned, Watcher, best_of
from spherec.tuning.sampler import SeededTPE
from spherec.tuning.search import Choices, Value
from spherec.tuning.space import Space
from spherec.tuning.storage import opened, told

_States = optuna.trial.TrialState

_COMPLETE_BEFORE_PRUNING = 5  # trials, of which at least so many must have been judged in the same epoch:
_JUDGED_IN_EPOCH = 3
_NEVER_PRUNED = 0.2  # share of the epochs: curves are flat before they rise
_ENOUGH_FOR_IMPORTANCE = 10  # complete trials
_DIGITS = 9  # of values that are told apart


def tune(
    data: Interactions,
    space: Space,
    goal: Goal | None = None,
    *,
    trials: int = 50,
    minutes: float | None = None,
    storage: str | PathLike[str] | None = None,
    study: str = "spherec",
    device: DeviceName | torch.device = "auto",
    watcher: Watcher | None = None,
) -> Tuned:
    """Try configs until the study has so many trials, those of earlier calls included, or so many minutes are over.

    The base's seed decides the split, the training and which configs are tried. `storage` is a file or the URL of a
    database, with which a study goes on later, or on several machines at once. No trial begins after `minutes`. Ctrl-C
    ends the call; the trial in progress waits for the next.
    """
    goal = goal or Goal()
    if not isinstance(data, Interactions):
        raise ArgumentError(f"data must be Interactions, got {type(data).__name__}; Interactions.from_frame makes some")
    if not isinstance(trials, int) or trials < 1:
        raise ArgumentError(f"trials must be a whole number >= 1, got {trials!r}")
    if minutes is not None and not minutes > 0:
        raise ArgumentError(f"minutes must be > 0, got {minutes:g}")
    if not study.strip():
        raise ArgumentError("a study needs a name, got an empty one")
    where = resolve(device)
    attempts = Attempts(data, goal, seed=space.base.seed, device=where)
    with _quiet():
        epochs = space.base.plan(len(attempts.learned)).epochs
        pruner = optuna.pruners.MedianPruner(
            _COMPLETE_BEFORE_PRUNING, round(_NEVER_PRUNED * epochs), n_min_trials=_JUDGED_IN_EPOCH
        )
        kept = opened(storage, study, _identity(data, space, goal), SeededTPE(space.base.seed), pruner)
        runner = _Runner(kept, space, goal, attempts, watcher or Watcher(), frees=where.type == "cuda")
        with told(storage):
            ended = runner.run(trials, None if minutes is None else time.monotonic() + 60 * minutes)
            tried = _tried(kept)
            importance = _importance(kept)
    best = best_of(tried, goal)
    return Tuned(best, None if best is None else space.config(best.values), tried, ended, importance)


class _Runner:
    """Runs one trial after the other."""

    def __init__(
        self, study: "optuna.Study", space: Space, goal: Goal, attempts: Attempts, watcher: Watcher, *, frees: bool
    ) -> None:
        self._study, self._space, self._goal = study, space, goal
        self._attempts, self._watcher = attempts, watcher
        self._frees = frees  # what a trial leaves, before the next begins: tables may fill half a GPU
        self._trial: optuna.Trial | None = None  # in progress

    def run(self, trials: int, deadline: float | None) -> Reason:
        start = self._space.start()
        if start is not None and not self._study.get_trials(deepcopy=False):
            self._study.enqueue_trial(start, skip_if_exists=True)  # so that what is found is no worse than the base
        with interruptible() as interrupt:  # between trials, where the database is written
            while len(_tried(self._study)) < trials:
                if deadline is not None and time.monotonic() >= deadline:
                    return "out of time"
                if interrupt.is_wanted():
                    return "interrupted"
                try:
                    failures = (TrainingError, ArgumentError)
                    self._study.optimize(self._attempt, n_trials=1, catch=failures, gc_after_trial=self._frees)
                except BaseException as error:  # optuna makes another error of Ctrl-C where it comes while it writes
                    if KeyboardInterrupt not in (type(error), type(error.__context__)):
                        raise
                    self._put_back()
                    return "interrupted"
                if self._trial is not None:
                    self._tell(self._trial.number)
                    self._trial = None
        return "all trials done"

    def _put_back(self) -> None:
        """Let the trial in progress wait for the next call, unless its end was written."""
        if self._trial is not None:
            ended = self._study.tell(self._trial, state=_States.FAIL, skip_if_finished=True)
            if ended.state == _States.FAIL:
                self._study.enqueue_trial(self._trial.params)

    def _attempt(self, trial: "optuna.Trial") -> float:
        """The objective: the best validation metric of a config."""
        self._trial = trial
        values = {name: _suggested(trial, name, domain) for name, domain in self._space.domains.items()}

        def give_up(history: History, mmr: float) -> bool:
            look = history.epochs[-1]
            trial.report(self._goal.standing(look.metric or 0.0, mmr), look.epoch)
            return trial.should_prune()

        try:
            outcome = self._attempts(
                self._space.config(values),
                give_up,
                lambda epoch, history: self._watcher.going(trial.number, epoch, history),
            )
        except (TrainingError, ArgumentError) as error:
            trial.set_user_attr("why", str(error))
            raise
        if outcome is None or outcome.ended == "interrupted":
            raise KeyboardInterrupt
        for name in ("value", "epoch", "mmr"):
            trial.set_user_attr(name, getattr(outcome, name))
        if self._goal.mmr_at_most is not None:
            trial.set_constraint("mmr", outcome.mmr - self._goal.mmr_at_most)
        if outcome.ended == "given up":
            raise optuna.TrialPruned
        return outcome.value

    def _tell(self, number: int) -> None:
        tried = _tried(self._study)
        last = next((one for one in tried if one.number == number), None)
        if last is not None:
            self._watcher.ended(tried, last)


def _suggested(trial: "optuna.Trial", name: str, domain: Any) -> Value:
    if isinstance(domain, Choices):
        chosen: Any = trial.suggest_categorical(name, domain.values)
        return cast("Value", chosen)
    if isinstance(domain.low, int):
        return trial.suggest_int(name, domain.low, domain.high, step=domain.step or 1, log=domain.log)
    return trial.suggest_float(name, domain.low, domain.high, step=domain.step, log=domain.log)


def _tried(study: "optuna.Study") -> list[Tried]:
    """The trials that have ended. Those that were interrupted or whose process was killed have not."""
    states = {_States.COMPLETE: "complete", _States.PRUNED: "pruned", _States.FAIL: "failed"}
    return [
        Tried(
            number=trial.number,
            state=states[trial.state],  # type: ignore[arg-type]
            values=trial.params,
            **{name: trial.user_attrs.get(name) for name in ("value", "epoch", "mmr", "why")},
            seconds=0.0 if trial.duration is None else trial.duration.total_seconds(),
        )
        for trial in study.get_trials(deepcopy=False, states=tuple(states))
        if trial.state != _States.FAIL or "why" in trial.user_attrs
    ]


def _importance(study: "optuna.Study") -> dict[str, float]:
    """Each field's share, the largest first; none where values are the same, but for rounding, or nearly all are."""
    complete = study.get_trials(deepcopy=False, states=(_States.COMPLETE,))
    values = {round(trial.value, _DIGITS) for trial in complete if trial.value is not None}
    if len(complete) < _ENOUGH_FOR_IMPORTANCE or len(values) == 1:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the best cannot be told from the others
        found = optuna.importance.get_param_importances(study, normalize=False)
    total = sum(found.values())
    if not total > 0:  # optuna would give all the same share
        return {}
    return {name: found[name] / total for name in sorted(found, key=lambda name: -found[name])}


def _identity(data: Interactions, space: Space, goal: Goal) -> dict[str, Any]:
    """What must be the same for a study to go on."""
    pairs = f"{len(data)} pairs, checksum {checksum(data.indptr, data.indices)}"
    config = _flat(space.base.described())
    return {
        "data": f"{data.n_users} users, {data.n_items} items, {pairs}",
        "the search": ", ".join(f"{name}={domain}" for name, domain in space.domains.items()),
        **config,
        "metric": goal.name,
        "validation": goal.validation,
        "mmr_at_most": goal.mmr_at_most,
    }


def _flat(table: dict[str, Any], path: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in table.items():
        flat |= _flat(value, f"{path}{name}.") if isinstance(value, dict) else {f"{path}{name}": value}
    return flat


@contextmanager
def _quiet() -> Iterator[None]:
    """What optuna would say is said by the watcher."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
