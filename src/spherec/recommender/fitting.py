"""A run as people start it: part of the pairs held out to know when to stop, and a bar to watch."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError
from spherec.evaluation import Validation, validation_part
from spherec.recommender.progress import training_bar
from spherec.training import ProgressCallback, Training

METRIC = "NDCG@50"
"""What decides when training ends, on the pairs held out."""

Watching = bool | ProgressCallback | None
"""Whether to show a bar; None shows one in a terminal. Or what to tell instead."""


def share_of(config: Training, share: float | None) -> float:
    """What to hold out if nothing is said: 5 %, but nothing under a schedule, where there is no epoch to choose."""
    if share is not None:
        return share
    return 0.05 if config.optimizer.schedule == "constant" else 0.0


def held_out(data: Interactions, config: Training, share: float | None) -> tuple[Interactions, Validation | None]:
    """What to learn from, and what to validate on: a share of each user's items, or nothing if it is 0."""
    share = share_of(config, share)
    if share == 0:
        return data, None
    if not 0 < share < 1:
        raise ArgumentError(f"validation must be 0 or a share between 0 and 1, got {share:g}")
    otherwise = "train on everything: validation=0 with a number of epochs (--validation 0 --epochs N)"
    fold = validation_part(data, share, seed=config.seed, otherwise=otherwise)
    return fold.train, Validation(fold.train, fold.test)


@contextmanager
def watched(watching: Watching, config: Training, pairs: int) -> Iterator[ProgressCallback | None]:
    """What to tell the trainer about progress."""
    if callable(watching):
        yield watching
    elif watching is False or (watching is None and not sys.stderr.isatty()):
        yield None
    else:
        with training_bar(config.plan(pairs).epochs, pairs, METRIC) as progress:
            yield progress
