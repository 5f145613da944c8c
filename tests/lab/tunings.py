"""What tests of tuning share: small planted data, quick settings, and attempts whose outcome is planted."""

from dataclasses import asdict

import numpy as np

from spherec import Interactions
from spherec.lab import SearchSpace, Trial, parse_searches, tune
from spherec.optim import Adam
from spherec.sampling import Uniform
from spherec.training import EpochRecord, History, Training

QUICK = Training(dim=4, sampler=Uniform(2), optimizer=Adam(0.03), batch_size=64, epochs=3, validate_every=1)


def clusters():
    """40 users who like items of their own cluster, and a few others."""
    random = np.random.default_rng(0)
    own = np.arange(40)[:, None] % 4 == np.arange(48) % 4
    return Interactions.from_matrix((random.random((40, 48)) < np.where(own, 0.8, 0.03)).astype(int))


DATA = clusters()


def space(*searches, base=QUICK):
    return SearchSpace.build(base, parse_searches(searches or ("optimizer.learning_rate=0.001..0.1:log", "dim=2,4,8")))


def tuned(*searches, data=DATA, base=QUICK, goal=None, **options):
    domains = space(*searches, base=base).domains
    return tune(data, base, domains, goal=goal, **{"device": "cpu", "trials": 3} | options)


def facts(tried):
    """What must not depend on the clock."""
    return [{name: value for name, value in asdict(one).items() if name != "seconds"} for one in tried]


def look(epoch, metric):
    return EpochRecord(epoch, 1, 1.0, loss=1.0, active=1.0, masked=0.0, triplets_per_second=1.0, metric=metric)


def plant(monkeypatch, curve):
    """Let all trials to come follow `curve(config)`, the (metric, MMR) of each epoch; the list tells how many looks
    each one lived."""
    lived = []
    monkeypatch.setattr("spherec.lab.tuning.ExactRanker", lambda vectors: vectors)

    def planted(part, settings, fit, *, k, metrics):
        config, stop, validate = (fit.keywords[name] for name in ("config", "stop", "validate"))
        history, mmrs, pruned = History(), [], False
        for epoch, (value, mmr) in enumerate(curve(config), start=1):
            looked = {metrics[0].name: value, "mmr": mmr}
            monkeypatch.setattr("spherec.lab.tuning.evaluate", lambda *_, found=looked, **__: found)
            history = History((*history.epochs, look(epoch, validate(None))))
            mmrs.append(mmr)
            if stop(history):
                pruned = True
                break
        lived.append(len(mmrs))
        best = history.best
        scores = {metrics[0].name: best.metric, "mmr": mmrs[best.epoch - 1]}
        return Trial(settings, scores, best.epoch, pruned=pruned), None

    monkeypatch.setattr("spherec.lab.tuning.run_trial", planted)
    return lived
