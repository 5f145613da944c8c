"""What tests of tuning share: small planted data, quick settings, and attempts whose outcome is planted."""

import numpy as np

from spherec import Interactions
from spherec.optim import Adam
from spherec.sampling import Uniform
from spherec.training import EpochRecord, History, Training
from spherec.tuning import Outcome, Space, parsed
from spherec.tuning.study import tune

QUICK = Training(dim=4, sampler=Uniform(2), optimizer=Adam(0.03), batch_size=64, epochs=3, validate_every=1)


def clusters():
    """40 users who like items of their own cluster, and a few others."""
    random = np.random.default_rng(0)
    own = np.arange(40)[:, None] % 4 == np.arange(48) % 4
    return Interactions.from_matrix((random.random((40, 48)) < np.where(own, 0.8, 0.03)).astype(int))


DATA = clusters()


def space(*searches, base=QUICK):
    return Space.of(base, parsed(searches or ("optimizer.learning_rate=0.001..0.1:log", "dim=2,4,8")))


def tuned(*searches, data=DATA, base=QUICK, goal=None, **options):
    return tune(data, space(*searches, base=base), goal, **{"device": "cpu", "trials": 3} | options)


def facts(tried):
    """What must not depend on the clock."""
    return [{name: value for name, value in one.described().items() if name != "seconds"} for one in tried]


def look(epoch, metric):
    return EpochRecord(epoch, 1, 1.0, loss=1.0, active=1.0, masked=0.0, triplets_per_second=1.0, metric=metric)


def plant(monkeypatch, curve):
    """Let all attempts to come follow `curve(config)`, the (metric, MMR) of each epoch; the list tells how many looks
    each one lived."""
    lived = []

    class Planted:
        learned = DATA

        def __init__(self, *_, **__):
            pass

        def __call__(self, config, give_up, progress):
            history, mmrs, ended = History(), [], "all epochs done"
            for epoch, (metric, mmr) in enumerate(curve(config), start=1):
                history = history.with_epoch(look(epoch, metric))
                mmrs.append(mmr)
                if give_up(history, mmr):
                    ended = "given up"
                    break
            lived.append(len(mmrs))
            return Outcome(history.best.metric, history.best.epoch, mmrs[history.best.epoch - 1], ended)

    monkeypatch.setattr("spherec.tuning.study.Attempts", Planted)
    return lived
