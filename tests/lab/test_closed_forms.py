"""EASE, EDLAE, and filters on the graph of items, against their equations with dense matrices in float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import BarycentricInterpolator

from spherec.errors import DataError
from spherec.lab.baselines import ease, graph_filters
from spherec.lab.baselines.ease import Ease, Edlae
from spherec.lab.baselines.graph_filters import ChebyCf, GfCf, plateau_coefficients
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
    with pytest.raises(DataError, match=r"at most 10 rows; these are 12 users and 11 items: 'ials' takes"):
        Ease().fit(interactions(random_rows(12, 11, 0.5)), {"regularization": 1.0}, CONTEXT)


GF_CF = {"alpha": 0.3, "vectors": 5}
CHEBYCF = {"order": 8, "flatness": 1.5, "vectors": 5, "alpha": 0.2, "beta": 0.4}
SHAPES = [(30, 50), (50, 30), (40, 40)]


def spectrum(rows):
    """R (U, I), users per item (I,), and the eigenvalues (I,) and eigenvectors (I, I) of P, the largest first."""
    r = np.array(rows, dtype=np.float64)
    of_users, of_items = r.sum(axis=1), r.sum(axis=0)
    normalized = r.copy()
    for user, item in np.argwhere(r):
        normalized[user, item] /= np.sqrt(of_users[user] * of_items[item])
    values, vectors = np.linalg.eigh(normalized.T @ normalized)
    return r, of_items, values[::-1], vectors[:, ::-1]


def between(r, middle, of_items, exponent):
    """R D^-x M D^x (U, I); nobody's items score 0."""
    here = of_items > 0
    left, right = (np.where(here, np.maximum(of_items, 1) ** power, 0) for power in (-exponent, exponent))
    return (r * left) @ middle * right


def ideal(values, vectors, n):
    chosen = vectors[:, :n][:, values[:n] > 1e-6]
    return chosen @ chosen.T


def gf_cf_oracle(rows, alpha, vectors):
    r, of_items, values, basis = spectrum(rows)
    linear = r @ (basis * values) @ basis.T
    return linear + alpha * between(r, ideal(values, basis, vectors), of_items, 0.5)


def plateau(order, flatness):
    """The polynomial through the values that the authors place on the roots."""
    nodes = [np.cos((order + 0.5 - k) / (order + 1) * np.pi) for k in range(order + 1)]
    places = [np.cos((order - k) / order * np.pi) for k in range(order + 1)]
    values = [0.5 + 0.5 * (-y) ** flatness if y < 0 else 0.5 - 0.5 * y**flatness for y in places]
    return BarycentricInterpolator(nodes, values)


def chebycf_oracle(rows, order, flatness, vectors, alpha, beta):
    r, of_items, values, basis = spectrum(rows)
    smooth = (basis * plateau(order, flatness)(1 - 2 * values)) @ basis.T
    return between(r, smooth + alpha * ideal(values, basis, vectors), of_items, beta)


CASES = [(GfCf(), GF_CF, gf_cf_oracle), (ChebyCf(), CHEBYCF, chebycf_oracle)]
both = pytest.mark.parametrize(("baseline", "settings", "oracle"), CASES, ids=["gf-cf", "chebycf"])


@both
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [1, 5, 29, 30, 512], ids=lambda n: f"{n} vectors")
@pytest.mark.parametrize("device", DEVICES)
def test_scores_are_those_of_the_equation(baseline, settings, oracle, shape, n, device):
    rows = random_rows(*shape, 0.3)
    settings, how = settings | {"vectors": n}, replace(CONTEXT, device=torch.device(device))
    found = scores_of(baseline.fit(interactions(rows), settings, how), *shape)
    np.testing.assert_allclose(found, oracle(rows, **settings), rtol=1e-3, atol=1e-4)


@both
@given(rows=st.lists(st.lists(st.integers(0, 1), min_size=5, max_size=5), min_size=1, max_size=7))
def test_users_and_items_without_anything_score_0(baseline, settings, oracle, rows):
    found = scores_of(baseline.fit(interactions(rows), settings | {"vectors": 512}, CONTEXT), len(rows), 5)
    np.testing.assert_allclose(found, oracle(rows, **settings | {"vectors": 512}), rtol=1e-3, atol=1e-4)
    dense = np.array(rows)
    assert np.all(found[dense.sum(axis=1) == 0] == 0)
    assert np.all(found[:, dense.sum(axis=0) == 0] == 0)


def test_the_polynomial_meets_the_plateau_on_its_nodes():
    for order, flatness in ((8, 1.5), (8, 15.0), (3, 2.0), (1, 1.0)):
        x = np.linspace(-1, 1, 50)
        found = np.polynomial.chebyshev.chebval(x, plateau_coefficients(order, flatness))
        np.testing.assert_allclose(found, plateau(order, flatness)(x), atol=1e-9)


def test_blocks_of_users_change_nothing(monkeypatch):
    rows = random_rows(40, 30, 0.3)
    monkeypatch.setattr(graph_filters, "_BLOCK", 7 * 30)
    found = scores_of(ChebyCf().fit(interactions(rows), CHEBYCF, CONTEXT), 40, 30)
    np.testing.assert_allclose(found, chebycf_oracle(rows, **CHEBYCF), rtol=1e-3, atol=1e-4)
