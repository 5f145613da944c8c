"""The sampler of tuning: TPE with a random stream of its own for every trial.

Optuna's sampler draws from one generator as long as the process lives. A study that is resumed in a new process would
draw its first values again, and machines with the same seed would all draw the same values. Here the seed and the
number of the trial decide, so a study that was stopped between two trials continues as if it had not been.

Bergstra et al., Algorithms for Hyper-Parameter Optimization (NeurIPS 2011).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from spherec import rng
from spherec.lab.tuning.package import optuna


class SeededTPE(optuna.samplers.BaseSampler):
    """A `TPESampler` for each trial, seeded with its number.

    The first trial has the values of `start`, so that the best is no worse than they are. It is told by its number,
    because machines that begin at once would all find that there is no trial yet.
    """

    def __init__(self, seed: int, start: Mapping[str, Any]) -> None:
        self._seed, self._start = seed, start
        self._inner = self._make_sampler(0)

    def before_trial(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        """Begin the random stream of this trial."""
        self._inner = self._make_sampler(trial.number)
        self._inner.before_trial(study, trial)

    def infer_relative_search_space(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> dict[str, Any]:
        """Ask TPE; the first trial is not asked about."""
        return {} if trial.number == 0 else self._inner.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: optuna.trial.FrozenTrial, search_space: dict[str, Any]
    ) -> dict[str, Any]:
        """Ask TPE."""
        return self._inner.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: optuna.Study, trial: optuna.trial.FrozenTrial, param_name: str, param_distribution: Any
    ) -> Any:
        """Ask TPE, or return the value to start with."""
        if trial.number == 0 and param_name in self._start:
            return self._start[param_name]
        return self._inner.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self,
        study: optuna.Study,
        trial: optuna.trial.FrozenTrial,
        state: optuna.trial.TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Ask TPE."""
        self._inner.after_trial(study, trial, state, values)

    def _make_sampler(self, number: int) -> optuna.samplers.TPESampler:
        seed = int(rng.stream(self._seed, "tuning", number).integers(1 << 31))
        # A trial that another machine is running counts as poor until it ends, so that not all try the same.
        return optuna.samplers.TPESampler(seed=seed, constant_liar=True)
