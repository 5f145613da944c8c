"""Tune: trials one after the other, each with settings that the ones before make likely to be good (TPE of optuna).

Poor trials are ended early by the median rule: after each validation, a trial whose best is below the median of the
finished ones at the same epoch. Unlike Hyperband it needs no fixed length of a trial and few trials.
"""

import math
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch

from spherec import rng
from spherec.data.interactions import Interactions
from spherec.data.output_files import refuse_unwritable
from spherec.data.splits import Fold, check_share
from spherec.device import DeviceName, resolve
from spherec.errors import (
    ArgumentError,
    DataError,
    MissingPackageError,
    SpherecError,
    TrainingError,
    check_count,
    quote,
)
from spherec.evaluation import Metric, evaluate, validation_part
from spherec.evaluation.metrics import Formula, find_metric, format_metric, label_at, median_popularity
from spherec.geometry import Vectors
from spherec.lab.models import versions_of
from spherec.lab.records import Trial, data_id
from spherec.lab.runs import best_trial, run_trial, train_validated
from spherec.lab.search_space import Choices, Domain, SearchSpace, SettingValue, flatten
from spherec.ranking import ExactRanker
from spherec.training import EpochRecord, History, Training
from spherec.training.trainer import interruptible

try:
    import optuna
    from sqlalchemy.exc import DatabaseError, SQLAlchemyError  # the database layer of optuna, installed with it
    from sqlalchemy.pool import NullPool
except ImportError as error:
    raise MissingPackageError("tuning needs optuna; install it with: pip install optuna") from error

_States = optuna.trial.TrialState

_COMPLETE_BEFORE_PRUNING = 5  # trials, of which at least so many must have been validated at the same epoch:
_VALIDATED_AT_EPOCH = 3
_NEVER_PRUNED = 0.2  # share of the epochs: curves are flat before they rise

_HEARTBEAT, _GRACE = 30, 120  # seconds between two heartbeats, and without one before a trial is given to another
_WAIT = 60  # seconds for another process to finish writing into an SQLite file
_ATTEMPTS, _PAUSE = 4, 0.5  # to open a database once more; seconds between

Storage = str | PathLike[str] | None
"""Place of a study: a file, the URL of a database, or None for a study that ends with the process."""

TuneEnd = Literal["all trials done", "out of time", "interrupted"]


@dataclass(frozen=True)
class Goal:
    """A metric on held-out pairs."""

    metric: str | Metric | Formula = "ndcg"
    "A metric by name, or one of your own. Higher must be better; it also decides when the training of a trial ends."
    k: int = 50
    "K, length of the lists."
    validation: float = 0.1
    "Share of each user's items that is held out."

    def __post_init__(self) -> None:
        if getattr(self.objective, "lower_is_better", False):
            raise ArgumentError(
                f"a search looks for the highest metric, but lower is better for {quote(self.objective.name)}; name "
                "another metric, or write one that returns the negative"
            )
        check_count("k", self.k)
        check_share("validation", self.validation)

    @property
    def objective(self) -> Metric:
        """The metric as an object, whose label at K is the name of the goal."""
        return find_metric(self.metric)

    @property
    def name(self) -> str:
        return label_at(self.objective, self.k)

    def format(self, value: float) -> str:
        return format_metric(self.objective, value)


class TuneWatcher:
    """Observer of a study. This one does nothing."""

    def on_epoch(self, number: int, epoch: EpochRecord, history: History) -> None:
        """Take note of an epoch of a trial."""

    def on_trial(self, trials: Sequence[Trial], last: Trial) -> None:
        """Take note of the last of all trials, which has ended."""


@dataclass(frozen=True)
class StudyOptions:
    """Limits and place of a study."""

    trials: int = 50
    "Number of trials of the whole study, those of earlier calls included."
    minutes: float | None = None
    "Minutes after which no new trial begins."
    storage: Storage = None
    "A file or the URL of a database, with which a study is continued later, or run on several machines at once."
    study: str = "spherec"
    "Name of the study in that place."
    device: DeviceName | torch.device = "auto"
    watcher: TuneWatcher = field(default_factory=TuneWatcher)

    def __post_init__(self) -> None:
        check_count("trials", self.trials)


@dataclass(frozen=True)
class TuneResult:
    """Result of a call of `tune`; another call may continue the study."""

    best: Trial | None  # the winner; None as long as no trial is complete
    config: Training | None  # of the winner
    trials: Sequence[Trial]
    "All trials of the study, also of earlier calls, in the order of their numbers."
    ended: TuneEnd  # why this call ended


def tune(
    data: Interactions,
    config: Any = None,
    search: Sequence[str] | Mapping[str, Domain] | None = None,
    *,
    goal: Goal | str | Metric | Formula | None = None,
    **options: Any,
) -> TuneResult:
    """Search the best settings of a config. The other arguments are those of `StudyOptions`: trials=50, storage=None, …

    `config` is a `Training` or a `CML` to begin from, by default the preset "two-stage". `search` names settings and
    their values, such as ["sampler.beta=0.1..1.0", "dim=64,128"]; by default what matters most for the config's loss
    and sampler. `goal` is a `Goal`, or just its metric: a name such as "recall", or a metric of your own. The config's
    seed decides the split, the training and which settings are tried. Ctrl-C ends the call; the trial in progress waits
    for the next.
    """
    how = StudyOptions(**options)
    goal = goal if isinstance(goal, Goal) else Goal() if goal is None else Goal(metric=goal)
    space = SearchSpace.build(Training() if config is None else config, search)
    part = validation_part(data, goal.validation, seed=space.base.seed)
    space = replace(space, base=space.base.resolve(part.train))
    with ExitStack() as stack, warnings.catch_warnings():  # silence optuna: the watcher reports
        stack.callback(optuna.logging.set_verbosity, optuna.logging.get_verbosity())
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        runner = _Runner(_open_study(how, data, space, goal, part), space, goal, part, how)
        with _explain_errors(how.storage, SQLAlchemyError, optuna.exceptions.OptunaError):
            ended = runner.run()
            trials = runner.trials()
    best = best_trial(trials, goal.objective.name)
    return TuneResult(best, None if best is None else space.config(best.settings), trials, ended)


class _Runner:
    """Runs one trial after the other."""

    def __init__(self, study: optuna.Study, space: SearchSpace, goal: Goal, part: Fold, how: StudyOptions) -> None:
        self.study, self.space, self.goal, self.part, self.how = study, space, goal, part, how
        self._device = resolve(how.device)
        self._trial: optuna.Trial | None = None  # in progress

    def run(self) -> TuneEnd:
        """Run trials until the study has so many, or the time is over."""
        deadline = math.inf if self.how.minutes is None else time.monotonic() + 60 * self.how.minutes
        frees = self._device.type == "cuda"  # the memory of a trial before the next: tables may fill half a GPU
        with interruptible() as interrupt:  # between trials, where the database is written
            while len(self.trials()) < self.how.trials:
                if time.monotonic() >= deadline:
                    return "out of time"
                if interrupt.is_wanted():
                    return "interrupted"
                try:
                    self.study.optimize(self._run_trial, n_trials=1, catch=(TrainingError,), gc_after_trial=frees)
                except BaseException as error:  # optuna raises another error if Ctrl-C comes while it writes
                    if KeyboardInterrupt not in (type(error), type(error.__context__)):
                        raise
                    self._put_back()
                    return "interrupted"
                ended = self.trials()
                for last in ended:
                    if self._trial is not None and last.number == self._trial.number:
                        self.how.watcher.on_trial(ended, last)
                self._trial = None
        return "all trials done"

    def trials(self) -> list[Trial]:
        """Return the trials that have ended. Those that were interrupted or whose process was killed have not."""
        states = (_States.COMPLETE, _States.PRUNED, _States.FAIL)
        stored = [each for each in self.study.get_trials(deepcopy=False, states=states) if "trial" in each.user_attrs]
        pairs = [(each.state, Trial(**each.user_attrs["trial"])) for each in stored]
        return [trial for state, trial in pairs if (state == _States.FAIL) == bool(trial.failed)]

    def _put_back(self) -> None:
        """Let the trial in progress wait for the next call, unless its end was written."""
        if self._trial is not None:
            ended = self.study.tell(self._trial, state=_States.FAIL, skip_if_finished=True)
            if ended.state == _States.FAIL:
                self.study.enqueue_trial(self._trial.params)

    def _run_trial(self, trial: optuna.Trial) -> float:
        """Return the best validation metric of a config: the objective of the search."""
        self._trial = trial
        done = replace(self._score(trial), number=trial.number)
        trial.set_user_attr("trial", asdict(done))
        if done.failed:
            raise TrainingError(done.failed)
        if done.pruned:
            raise optuna.TrialPruned
        return done.scores[self.goal.objective.name]

    def _score(self, trial: optuna.Trial) -> Trial:
        goal, metrics = self.goal, (self.goal.objective, median_popularity)
        settings = {name: _suggest(trial, name, domain) for name, domain in self.space.domains.items()}

        def validate(vectors: Vectors) -> float:
            scores = evaluate(ExactRanker(vectors), self.part.train, self.part.test, k=goal.k, metrics=metrics)
            return scores[goal.objective.name]

        def progress(epoch: EpochRecord, history: History) -> None:
            self.how.watcher.on_epoch(trial.number, epoch, history)

        def give_up(history: History) -> bool:
            look = history.epochs[-1]
            trial.report(look.metric or 0.0, look.epoch)
            return trial.should_prune()

        try:
            config = self.space.config(settings)
        except ArgumentError as error:  # settings that do not go together
            return Trial(settings, failed=str(error))
        fit = partial(
            train_validated, config=config, device=self._device, validate=validate, progress=progress, stop=give_up
        )
        done, _ = run_trial(self.part, settings, fit, k=goal.k, metrics=metrics)
        # A metric without a value counts as 0: lists are empty where users have all items.
        return replace(done, scores={name: float(np.nan_to_num(value)) for name, value in done.scores.items()})


class _SeededTPE(optuna.samplers.TPESampler):
    """TPE whose random stream begins anew at each trial, from its number.

    With one stream for all trials, as optuna has it, a resumed study would draw its first values again, and machines
    with the same seed would all draw the same.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._base = seed

    def before_trial(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        del study
        seed = int(rng.stream(self._base, "tuning", trial.number).integers(1 << 31))
        # A trial that another machine is running counts as poor until it ends, so that not all try the same.
        super().__init__(seed=seed, constant_liar=True)


def _open_study(how: StudyOptions, data: Interactions, space: SearchSpace, goal: Goal, part: Fold) -> optuna.Study:
    """Open or create the study of that name; raise an error if it belongs to other data or settings."""
    spared = round(_NEVER_PRUNED * space.base.plan(len(part.train)).epochs)
    with _explain_errors(how.storage, Exception):
        study = optuna.create_study(
            storage=_open_storage(how.storage),
            study_name=how.study,
            direction="maximize",
            load_if_exists=True,
            sampler=_SeededTPE(space.base.seed),
            pruner=optuna.pruners.MedianPruner(_COMPLETE_BEFORE_PRUNING, spared, n_min_trials=_VALIDATED_AT_EPOCH),
        )
        has_trials = bool(study.get_trials(deepcopy=False))  # first: another machine sets the identity before any trial
        known, identity = study.user_attrs.get("spherec", {}), _identity(data, space, goal)
        if not known and not has_trials:
            study.set_user_attr("spherec", identity)
            if start := space.start():
                study.enqueue_trial(start, skip_if_exists=True)  # first, what the base itself is worth
            return study
    for fact in sorted({*known, *identity}):
        before, now = (facts.get(fact, "not given") for facts in (known, identity))
        if before != now:
            raise DataError(
                f"study {quote(how.study)} in {show_place(how.storage)} cannot be continued: {fact} was {before}, now "
                f"it is {now}; give the same, or start another study with --study or --storage"
            )
    return study


@contextmanager
def _explain_errors(storage: Storage, *kinds: type[Exception]) -> Iterator[None]:
    """Raise errors of these kinds inside this block as a one-line `DataError`; drivers have kinds of their own."""
    try:
        yield
    except SpherecError:
        raise
    except Exception as error:
        # While the end of a trial is written, optuna raises an error of its own instead.
        cause = next((one for one in (error, error.__context__) if isinstance(one, kinds)), None)
        if cause is None:
            raise
        # Drivers repeat passwords: of a URL, only the kind of error and the missing module are shown.
        brief = f"{type(cause).__name__} {getattr(cause.__cause__, 'name', '')}"
        reason = brief if _is_url(storage) else (str(cause).splitlines() or [""])[0]
        raise DataError(
            f"cannot use the study in {show_place(storage)}: {reason}; what it holds is kept; check --storage, a file "
            "or a URL such as postgresql://user:password@host:5432/database, and its driver"
        ) from None


def show_place(storage: Storage) -> str:
    """Return the place of a study for messages and files. A URL may have a password in it and is never shown."""
    return "memory" if storage is None else "the database" if _is_url(storage) else str(storage)


def _is_url(storage: Storage) -> bool:
    return "://" in str(storage)


def _open_storage(storage: Storage) -> optuna.storages.RDBStorage | None:
    if storage is None:
        return None
    url = str(storage)
    if not _is_url(url):
        refuse_unwritable(url)
        url = f"sqlite:///{Path(url).resolve()}"
    # Connections are closed after each use, so that none is left when a study ends.
    options = {"poolclass": NullPool, **({"connect_args": {"timeout": _WAIT}} if url.startswith("sqlite") else {})}
    open_database = partial(
        optuna.storages.RDBStorage,
        url,
        engine_kwargs=options,
        heartbeat_interval=_HEARTBEAT,
        grace_period=_GRACE,
        # A trial whose process was killed waits until another process runs it again.
        heartbeat_stale_trial_callback=optuna.storages.RetryHeartbeatStaleTrialCallback(max_retry=3),
    )
    for _ in range(_ATTEMPTS):  # another process that begins at the same time may be making the tables
        with suppress(DatabaseError):
            return open_database()
        time.sleep(_PAUSE)
    return open_database()


def _suggest(trial: optuna.Trial, name: str, domain: Domain) -> SettingValue:
    if isinstance(domain, Choices):
        return cast("SettingValue", trial.suggest_categorical(name, domain.values))
    if isinstance(domain.low, int):
        step = int(domain.step or 1)
        return trial.suggest_int(name, domain.low, int(domain.high), step=step, log=domain.log)
    return trial.suggest_float(name, domain.low, domain.high, step=domain.step, log=domain.log)


def _identity(data: Interactions, space: SearchSpace, goal: Goal) -> dict[str, Any]:
    """Return what must be the same for a study to be continued."""
    return {
        "data": data_id(data),
        "the search": ", ".join(f"{name}={domain}" for name, domain in space.domains.items()),
        **flatten(space.base.to_record()),
        "metric": goal.name,
        "validation": goal.validation,
        **versions_of(goal.objective, space.base.loss, space.base.sampler),
    }
