"""Advice about settings: which have no effect, and which are likely better changed for given data."""

import numpy as np

from spherec.data.interactions import Interactions
from spherec.training.config import Training


def advise(config: Training, data: Interactions) -> list[str]:
    """Return one sentence for each setting that has no effect, or that is likely better changed on this data."""
    return [*find_idle_settings(config, data), *config.loss.advice(data)]


def find_idle_settings(config: Training, data: Interactions) -> list[str]:
    """Return one sentence for each setting that has no effect next to the others, or on this data."""
    advice = config.sampler.advice(data)
    correction = config.loss.bias_correction
    if correction is not None and correction != 1 and not _is_biased(config, data):
        advice.append(
            f"gamma has no effect with {type(config.sampler).__name__}; it undoes the bias of the sampler Popularity"
        )
    return advice


def _is_biased(config: Training, data: Interactions) -> bool:
    """Tell whether the loss learns that some items are drawn more often than others."""
    return config.sampler.gives_log_q and bool(np.ptp(config.sampler.law(data)) > 0)
