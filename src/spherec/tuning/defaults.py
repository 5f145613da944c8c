"""What to search when nobody says: what matters most for this loss and this sampler.

Not the dimensions, the negatives or the batch: more of them are mostly better and always slower, so the answer would be
the largest allowed. Nor softmin's gamma and the law of its pool: how popular lists shall be is another question.
"""

from spherec.training import Training
from spherec.tuning.search import Domain, parsed


def usual(config: Training) -> dict[str, Domain]:
    """Return the search that suits the config's loss and sampler."""
    loss, sampler = config.loss, config.sampler
    searches = {"optimizer.learning_rate": "0.0003..0.01:log"}
    searches |= {f"loss.{name}": values for name, values in loss.search_space().items()}
    searches |= {f"sampler.{name}": v for name, v in sampler.search_space().items() if name not in loss.not_searched}
    return parsed([f"{name}={values}" for name, values in searches.items()])
