"""Our metrics are those of ranx (Bassani 2022) wherever the definitions agree.

Recall, precision, hit rate, reciprocal rank and binary NDCG agree. Average precision agrees for users with at most K
held-out items: ranx divides by all of them, we by min(held out, K). MMR, popularity, coverage and Gini have no peer.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from spherec.evaluation import evaluate
from spherec.ranking import Ranking
from tests.sampling.checks import interactions, random_rows

N_USERS, N_ITEMS = 60, 40
PEERS = ["recall", "precision", "hit_rate", "mrr", "ndcg"]


@pytest.fixture(scope="module")
def ranx():
    """Imported here, for it takes seconds, and without its compilation, which takes most of a minute."""
    numba = pytest.importorskip("numba")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba.config, "DISABLE_JIT", True)
        yield pytest.importorskip("ranx")


def case(k, seed, most_held_out=N_ITEMS):
    """Users' held-out rows, and random lists of 1 to K items, those left over filled with -1."""
    random = np.random.default_rng(seed)
    held_out = random_rows(N_USERS, N_ITEMS, 0.2, seed)
    held_out[:5] = random_rows(5, N_ITEMS, 0.9, seed)
    for row in held_out:
        row[random.permutation(np.flatnonzero(row))[most_held_out:]] = 0
        row[random.integers(N_ITEMS)] |= not row.any()
    ranked = np.full((N_USERS, k), -1)
    for row in ranked:
        length = random.integers(1, min(k, N_ITEMS) + 1)
        row[:length] = random.permutation(N_ITEMS)[:length]
    return held_out, ranked


def ours(held_out, ranked):
    nothing, test = interactions(np.zeros_like(held_out)), interactions(held_out)
    lists = SimpleNamespace(top=lambda *_, **__: Ranking(ranked, np.zeros(ranked.shape, np.float32)))
    return evaluate(lists, nothing, test, k=ranked.shape[1]).per_user


def theirs(ranx, held_out, ranked, name):
    """(B,) ranx's values of a metric at K, users by ascending index."""
    k = ranked.shape[1]
    relevant = {f"u{user:03}": {f"i{item}": 1 for item in np.flatnonzero(row)} for user, row in enumerate(held_out)}
    found = {
        f"u{user:03}": {f"i{item}": float(k - place) for place, item in enumerate(row) if item >= 0}
        for user, row in enumerate(ranked)
    }
    return ranx.evaluate(ranx.Qrels(relevant), ranx.Run(found), f"{name}@{k}", return_mean=False)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("k", [1, 5, 20, N_ITEMS + 10])
@pytest.mark.parametrize("name", PEERS)
def test_a_metric_equals_its_peer_in_ranx(ranx, name, k, seed):
    held_out, ranked = case(k, seed)
    values = getattr(ours(held_out, ranked), name)
    assert values.std() > 0
    np.testing.assert_allclose(values, theirs(ranx, held_out, ranked, name), rtol=0, atol=1e-9)


def test_average_precision_differs_from_that_of_ranx_by_held_out_over_k_where_more_are_held_out(ranx):
    k = 5
    held_out, ranked = case(k, seed=0)
    counts = held_out.sum(1)
    values, peers = ours(held_out, ranked).map, theirs(ranx, held_out, ranked, "map")
    assert ((counts > k) & (values > peers)).any()
    np.testing.assert_allclose(values, peers * counts / np.minimum(counts, k), rtol=0, atol=1e-9)
