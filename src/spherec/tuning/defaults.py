"""What to search when nobody says: what matters most for this loss and this sampler.

Not the dimensions, the negatives or the batch: more of them are mostly better and always slower, so the answer would be
the largest allowed. Nor softmin's gamma and the law of its pool: how popular lists shall be is another question.
"""

from spherec.losses import Softmin
from spherec.sampling import Hard, Popularity, SemiHard, TwoStage
from spherec.training import Training
from spherec.tuning.search import Domain, Range


def usual(config: Training) -> dict[str, Domain]:
    """The search that suits the config's parts."""
    search: dict[str, Domain] = {"optimizer.learning_rate": Range(3e-4, 1e-2, log=True)}
    if isinstance(config.loss, Softmin):
        search["loss.temperature"] = Range(0.03, 1.0, log=True)
    else:
        search["loss.margin"] = Range(0.25, 2.0)
        if isinstance(config.sampler, Popularity | TwoStage):
            search["sampler.beta"] = Range(0.0, 1.0)
    if isinstance(config.sampler, TwoStage) and config.sampler.vectors == "live":
        search["sampler.sharpness"] = Range(0.005, 0.1, log=True)
    if isinstance(config.sampler, Hard | SemiHard):
        search["sampler.candidates"] = Range(2, 50, log=True)
    return search
