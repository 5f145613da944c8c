"""What tests of training share: small data, quick settings, and a look into the run through its sampler."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from spherec import training
from spherec.distributed.group import ProcessGroup
from spherec.geometry import DenseVectors
from spherec.optim import Adam
from spherec.sampling import SAMPLERS as SAMPLER_KINDS
from spherec.sampling import Hard, Popularity, SemiHard, TwoStage, Uniform
from spherec.training import Run, RunFiles, Training, join
from tests.sampling.checks import CPU, directions, interactions, random_rows

DATA = interactions(random_rows(20, 30, 0.2))
"""More pairs than a multiple of the batch, so that the last batch is smaller."""

QUICK = Training(dim=8, sampler=Uniform(2), optimizer=Adam(1e-2), batch_size=16, epochs=3, validate_every=1)
STEPS = -(-len(DATA) // QUICK.batch_size)  # an epoch

SAMPLERS = {
    "uniform": Uniform(3),
    "uniform shared": Uniform(12, shared=True),
    "popularity": Popularity(3),
    "popularity shared": Popularity(12, shared=True),
    "two-stage live": TwoStage(3, candidates=15),
    "two-stage frozen": TwoStage.as_released(3),
    "hard": Hard(2),
    "semi-hard": SemiHard(2),
}


each_sampler = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)


class Alike(ProcessGroup):
    """A group in which all processes give the same, for tests in one process."""

    def __init__(self, rank, size):
        super().__init__(CPU, rank, size)

    def collect_objects(self, thing):
        return [thing] * self.size

    def agree(self, *flags):
        return list(flags)

    def add_up(self, numbers):
        return numbers


def train(data, config=None, *, validate=None, device=CPU, initial=None, features=None, feature_map=None, **options):
    """A run in one call: what `RunFiles` takes goes there, callbacks to `spherec.training.train`."""
    callbacks = {name: options.pop(name) for name in ("progress", "stop", "save") if name in options}
    files = RunFiles(**options)
    run = Run(data, config, initial, features, feature_map, join(device))
    return training.train(run, validate, files=files, **callbacks)


def trained(data=DATA, validate=None, device=CPU, **options):
    """A quick run; what `Training` has as a field goes there, the rest to `train`."""
    settings = {name: options.pop(name) for name in list(options) if name in Training.__dataclass_fields__}
    return train(data, replace(QUICK, **settings), validate=validate, device=device, **options)


def start(data=DATA, dim=8, constraint="sphere"):
    """A model to begin from."""
    return DenseVectors(directions(data.n_users, dim, 1), directions(data.n_items, dim, 2), constraint)


def same(one, other):
    """Whether two models have bitwise the same rows and reach."""
    reaches = [one.item_reach, other.item_reach]
    if None in reaches and reaches != [None, None]:
        return False
    tables = [(one.user_table, other.user_table), (one.item_table, other.item_table)]
    return all(torch.equal(*pair) for pair in (tables if reaches[0] is None else [*tables, reaches]))


def difference(one, other):
    """The largest difference between the vectors that two runs of a crew leave."""
    tables = [(one[name], other[name]) for name in ("users", "items", "reach") if one[name] is not None]
    return max(float((a - b).abs().max()) for a, b in tables)


def copied(vectors):
    """The vectors of a run in progress in tables of their own."""
    users, items = (torch.cat(list(blocks)) for blocks in (vectors.user_blocks(), vectors.item_blocks()))
    return DenseVectors(users, items, vectors.constraint)


def facts(history):
    """What must not depend on the clock."""
    clock = {"seconds", "triplets_per_second"}
    return [{name: one for name, one in record.items() if name not in clock} for record in history.as_records()]


def falling(vectors):
    """A metric that is worse after each epoch: how far users are from their items, which training makes small."""
    users, items = (
        torch.tensor(index, dtype=torch.int64, device=vectors.device) for index in (DATA.users, DATA.indices)
    )
    return float((vectors.users(users) - vectors.items(items)).square().sum(1).mean())


def watch_dial(monkeypatch, see):
    """Call `see(dial)` at each step of the runs to come; the dial is None without reach."""
    whole = Run._gradient

    def gradient(run, rows, negatives, users, dial):
        see(dial)
        return whole(run, rows, negatives, users, dial)

    monkeypatch.setattr(Run, "_gradient", gradient)


def watch(monkeypatch, see):
    """Call `see(users, positives, negatives)` at each step of the runs to come, after sampling."""

    class Watched:
        def __init__(self, sampler):
            self._sampler = sampler

        def sample(self, users, positives, geometry, generator):
            negatives = self._sampler.sample(users, positives, geometry, generator)
            see(users, positives, negatives)
            return negatives

    for kind in SAMPLER_KINDS.values():
        build = kind.build
        monkeypatch.setattr(kind, "build", lambda *given, build=build, **options: Watched(build(*given, **options)))


def at_step(number, act):
    """For `watch`: act at one step, counted from 1."""
    steps = iter(range(1, 1_000_000))
    return lambda *_: act() if next(steps) == number else None


class Crash(Exception):
    """What no handler expects."""


def crash():
    raise Crash


def pairs_of(data):
    return sorted(zip(data.users.tolist(), data.indices.tolist(), strict=True))


def matrix(*rows):
    return interactions(np.array(rows))
