"""EASE by either side, against the equation with dense matrices in float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spherec.errors import DataError
from spherec.lab.baselines import ease
from spherec.lab.baselines.ease import Ease, Edlae
from spherec.lab.baselines.ials import IalsBaseline
from tests.lab.tiny import CONTEXT, CPU
from tests.sampling.checks import interactions, random_rows

MATRICES = st.tuples(st.integers(1, 7), st.integers(1, 7)).flatmap(
    lambda shape: st.lists(
        st.lists(st.integers(0, 1), min_size=shape[1], max_size=shape[1]), min_size=shape[0], max_size=shape[0]
    )
)
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
REGULARIZATIONS = st.sampled_from([0.5, 10.0, 500.0, 5000.0])


def oracle(rows, regularization, dropout=0.0):
    """X B (U, I), as the papers write it."""
    x = np.array(rows, dtype=np.float64)
    gram = x.T @ x
    p = np.linalg.inv(gram + regularization * np.eye(x.shape[1]) + dropout / (1 - dropout) * np.diag(np.diag(gram)))
    b = np.eye(x.shape[1]) - p / np.diag(p)[None, :]
    assert np.allclose(np.diag(b), 0)
    return x @ b


def scores_of(ranker, n_users, n_items):
    """All scores (U, I), put back from the lists of everything."""
    ranking = ranker.top(np.arange(n_users), n_items)
    found = np.empty((n_users, n_items))
    np.put_along_axis(found, ranking.items, ranking.scores, axis=1)
    return found


@pytest.mark.parametrize("side", [ease._by_users, ease._by_items], ids=["by users", "by items"])
@given(rows=MATRICES, regularization=REGULARIZATIONS, dropout=st.sampled_from([0.0, 0.3, 0.7]))
def test_either_side_is_the_equation(side, rows, regularization, dropout):
    data = interactions(rows)
    shift = regularization + dropout / (1 - dropout) * data.users_per_item
    found = scores_of(side(data, shift, CPU), data.n_users, data.n_items)
    np.testing.assert_allclose(found, oracle(rows, regularization, dropout), rtol=1e-4, atol=1e-6)


def test_a_closed_form_tries_all_of_its_settings():
    assert len(Ease().draw(2, seed=0, fold=0)) == len(Ease.search_space["regularization"])
    assert len(IalsBaseline().draw(2, seed=0, fold=0)) == 2


def test_dropout_is_edlae():
    rows, settings = random_rows(30, 20, 0.3), {"regularization": 10.0, "dropout": 0.5}
    found = scores_of(Edlae().fit(interactions(rows), settings, CONTEXT), 30, 20)
    np.testing.assert_allclose(found, oracle(rows, 10.0, 0.5), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("shape", [(30, 90), (90, 30), (40, 40)])
@pytest.mark.parametrize("in_double", [True, False])
@pytest.mark.parametrize("block", [7, 1 << 22])
@pytest.mark.parametrize("device", DEVICES)
def test_larger_data_in_blocks(shape, in_double, block, device, monkeypatch):
    monkeypatch.setattr(ease, "_BLOCK", block)
    monkeypatch.setattr(ease, "_IN_DOUBLE", 20_000 if in_double else 0)
    rows = random_rows(*shape, 0.3)
    how = replace(CONTEXT, device=torch.device(device))
    found = scores_of(Ease().fit(interactions(rows), {"regularization": 10.0}, how), *shape)
    np.testing.assert_allclose(found, oracle(rows, 10.0), rtol=1e-3, atol=1e-5)


def test_too_much_to_invert_is_said(monkeypatch):
    monkeypatch.setattr(ease, "LARGEST", 10)
    with pytest.raises(DataError, match=r"at most 10 rows; these are 12 users and 11 items: leave 'ease' out"):
        Ease().fit(interactions(random_rows(12, 11, 0.5)), {"regularization": 1.0}, CONTEXT)
