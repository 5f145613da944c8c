"""One config, tried: trained on most pairs, judged on the others. Test data plays no part."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from spherec.data.interactions import Interactions
from spherec.evaluation import score, validation_part
from spherec.geometry import Vectors
from spherec.memory import enough_memory
from spherec.ranking import ExactRanker
from spherec.training import History, ProgressCallback, Training, train
from spherec.training.trainer import Ended
from spherec.tuning.goal import Goal

GiveUp = Callable[[History, float], bool]
"""Asked after each look at the metric, with the MMR of that look's lists: whether to end the trial."""


@dataclass(frozen=True)
class Outcome:
    """What a config gave."""

    value: float
    "The best of the metric, which is that of the model that training keeps."
    epoch: int
    "After which it was reached."
    mmr: float
    "Of that epoch's lists."
    ended: Ended
    "Why training ended."


class Attempts:
    """Tries configs on one inner split, the same for all."""

    def __init__(self, data: Interactions, goal: Goal, *, seed: int, device: torch.device) -> None:
        fold = validation_part(data, goal.validation, seed=seed)
        self.learned = fold.train
        self._held_out = fold.test
        self._goal = goal
        self._device = device

    def __call__(
        self, config: Training, give_up: GiveUp | None = None, progress: ProgressCallback | None = None
    ) -> Outcome | None:
        """The outcome; None if Ctrl-C came before the first look. A `TrainingError` where the config cannot learn."""
        looks = _Looks(self.learned, self._held_out, self._goal)
        stop = None if give_up is None else (lambda history: give_up(history, looks.mmr[-1]))
        with enough_memory():
            trained = train(self.learned, config, validate=looks, device=self._device, progress=progress, stop=stop)
        validated = [record for record in trained.history.epochs if record.metric is not None]
        best = trained.history.best
        if best is None or best.metric is None:
            return None
        return Outcome(best.metric, best.epoch, looks.mmr[validated.index(best)], trained.ended)


class _Looks:
    """The metric, as training asks for it; remembers the MMR of each look."""

    def __init__(self, learned: Interactions, held_out: Interactions, goal: Goal) -> None:
        self.mmr: list[float] = []
        self._learned, self._held_out, self._goal = learned, held_out, goal
        self._users = np.flatnonzero(held_out.items_per_user)  # (B,)

    def __call__(self, vectors: Vectors) -> float:
        ranking = ExactRanker(vectors).top(self._users, self._goal.k, without=self._learned)
        scores = score(ranking, self._users, self._learned, self._held_out, k=self._goal.k)
        self.mmr.append(0.0 if math.isnan(scores.mmr) else scores.mmr)  # where users have all items, lists are empty
        return float(getattr(scores, self._goal.metric))
