"""Advice about settings that have no effect, or that are likely better changed, on some data."""

import numpy as np

from spherec.data.interactions import Interactions
from spherec.losses import Softmin
from spherec.losses.softmin import temperature_for
from spherec.sampling import TwoStage
from spherec.training.config import Training

_FAR_BELOW = 0.7  # of the temperature that comes from the data


def advise(config: Training, data: Interactions) -> list[str]:
    """Return one sentence for each setting that has no effect, or that is likely better changed on this data."""
    advice = [*find_idle_settings(config, data), *_advise_temperature(config, data)]
    default = Training()
    if not advice and (config.loss, config.sampler) == (default.loss, default.sampler):
        advice.append(
            "the default is made for lists that are not mainstream; on Book-Crossing CML.preset('fast') had "
            "a higher NDCG (6.0 against 4.3 %), with more popular items, in about a third of the time on a CPU, and "
            "'accurate' a still higher one (6.3 %), in about four times the time"
        )
    return advice


def find_idle_settings(config: Training, data: Interactions) -> list[str]:
    """Return one sentence for each setting that has no effect next to the others, or on this data."""
    advice = _advise_candidates(config, data)
    if config.mainstream != 1 and not config.reach:
        advice.append("mainstream has no effect without reach; set reach, or train a preset that has it")
    if config.loss.bias_correction not in (None, 1) and not _is_biased(config, data):
        advice.append(
            f"gamma has no effect with {type(config.sampler).__name__}; it undoes the bias of the sampler Popularity"
        )
    return advice


def _advise_temperature(config: Training, data: Interactions) -> list[str]:
    """Recommend the temperature that comes from the data if the one of the loss is far lower."""
    given = config.loss.temperature if isinstance(config.loss, Softmin) else None
    likely = temperature_for(data)
    if given is None or given >= _FAR_BELOW * likely:
        return []
    return [f"a temperature near {likely:g} is likely better on this data; leave loss.temperature out to get it"]


def _advise_candidates(config: Training, data: Interactions) -> list[str]:
    """Say that β has no effect where stage one takes all items that anybody has."""
    sampler, drawable = config.sampler, int(np.count_nonzero(data.users_per_item))
    if not isinstance(sampler, TwoStage) or drawable > sampler.candidates or sampler.replacement:
        return []
    fewer = -(-drawable // 4)
    return [
        f"all {drawable:,} items are candidates in every batch, so the sampler's beta has no effect; "
        f"sampler={{'candidates': {fewer}}} (--set sampler.candidates={fewer}) gives it one; CML.preset('accurate') "
        "(--preset accurate) is likely better on so few"
    ]


def _is_biased(config: Training, data: Interactions) -> bool:
    """Tell whether the loss learns that some items are drawn more often than others."""
    return config.sampler.gives_log_q and bool(np.ptp(config.sampler.law(data)) > 0)
