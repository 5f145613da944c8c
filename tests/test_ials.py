"""iALS against equations solved row by row in float64, its two kernels against each other, and what it promises."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from spherec import rng
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError
from spherec.ials import Factors, Ials, fit_ials
from spherec.kernels.cpu.least_squares import solve_rows as solve_rows_compiled
from spherec.kernels.reference.least_squares import Systems, solve_rows
from spherec.losses import Softmin
from spherec.recommender import CML, load
from spherec.training import Run, Training, join, train
from tests.training.planted import TRAIN, quality

DIM = 8


def random_data(seed, users=40, items=60, share=0.1, *, weigh=False):
    generator = np.random.default_rng(seed)
    matrix = (generator.random((users, items)) < share) * 1.0
    matrix[0], matrix[:, 0], matrix[2], matrix[4, 1:] = 0, 0, matrix[3], 1  # no pair; equal rows; nearly every item
    if not weigh:
        return Interactions.from_matrix(sparse.csr_array(matrix))
    users_of, items_of = matrix.nonzero()
    values = generator.integers(1, 9, len(users_of)) / 2
    return Interactions.from_pairs(users_of.tolist(), items_of.tolist(), values=values, weigh=True)


def oracle(data, config, seed):
    """Solve each row's whole system in float64, in the order of `fit_ials`, from the same first items."""
    weights = np.ones(len(data)) if data.weights is None else data.weights
    dense = sparse.csr_array((weights, data.indices, data.indptr), shape=(data.n_users, data.n_items)).toarray()
    alpha = config.catalogue_weight / data.n_items
    different, row_of = np.unique(dense, axis=1, return_inverse=True)
    order = dict.fromkeys(row_of.ravel().tolist())  # in the order of their first items
    first = torch.empty(different.shape[1], DIM)
    first.normal_(0, 0.1 * DIM**-0.5, generator=rng.torch_stream(seed, "first factors"))
    items = first.double().numpy()[[list(order).index(row) for row in row_of.ravel()]]
    users = None
    for _ in range(config.sweeps):
        users = solve_exactly(dense, items, alpha, config)
        items = solve_exactly(dense.T, users, alpha, config)
    return users, items


def solve_exactly(weights, others, alpha, config):
    gram, rows = others.T @ others, []
    for row in weights:
        n = np.count_nonzero(row)
        shift = config.regularization * (n + alpha * len(others)) ** config.nu
        matrix = alpha * gram + shift * np.eye(DIM) + (others.T * row) @ others
        rows.append(np.linalg.solve(matrix, others.T @ row))
    return np.stack(rows)


@pytest.mark.parametrize("weigh", [False, True])
@pytest.mark.parametrize("nu", [1.0, 0.5, 0.0])
def test_equals_whole_systems(weigh, nu):
    data = random_data(3, weigh=weigh)
    config = Ials(catalogue_weight=20, regularization=0.05, nu=nu, sweeps=3, steps=30)
    users, items = oracle(data, config, seed=5)
    found = fit_ials(data, DIM, config, seed=5)  # turned, which changes no product
    np.testing.assert_allclose((found.users @ found.items.T).numpy(), users @ items.T, atol=1e-4)
    np.testing.assert_allclose((found.items @ found.items.T).numpy(), items @ items.T, atol=1e-4)


def test_few_steps_come_to_the_same_in_the_end():
    data = random_data(4, users=200, items=100)
    config = Ials(catalogue_weight=50, sweeps=30)
    few, many = (fit_ials(data, 16, replace(config, steps=steps)) for steps in (4, 60))
    few, many = (factors.users @ factors.items.T for factors in (few, many))
    assert (few - many).abs().max() < 0.01 * many.abs().max()


@given(st.integers(0, 10_000), st.booleans(), st.integers(1, 12), st.integers(2, 70))
def test_kernels_agree(seed, weigh, steps, dim):
    generator = np.random.default_rng(seed)
    counts = generator.integers(0, 30, 50)
    starts = torch.from_numpy(np.concatenate([[0], counts.cumsum()]))
    others = torch.from_numpy(generator.integers(0, 40, starts[-1].item()))
    weights = torch.from_numpy(generator.random(len(others), np.float32) + 0.1) if weigh else None
    table = torch.from_numpy(generator.standard_normal((40, dim), np.float32)) / dim**0.5
    diagonal, shift = (torch.from_numpy(generator.random(size, np.float32) + 0.3) for size in (dim, 50))
    rows = torch.from_numpy(generator.standard_normal((50, dim), np.float32))
    compiled = rows.clone()
    systems = Systems(starts, others, weights, table, diagonal, shift)
    solve_rows(systems, rows, steps)
    solve_rows_compiled(systems, compiled, steps)
    torch.testing.assert_close(compiled, rows, atol=1e-3, rtol=1e-3)


def test_the_number_of_threads_changes_no_bit(set_threads):
    data, found = random_data(6, users=300, items=400), []
    for threads in (1, 3):
        set_threads(threads)
        found.append(fit_ials(data, 24, Ials(sweeps=3)))
    assert torch.equal(found[0].users, found[1].users)
    assert torch.equal(found[0].items, found[1].items)


def test_rows_without_pairs_are_zero_and_equal_rows_equal():
    found = fit_ials(random_data(7), DIM, Ials(catalogue_weight=30))
    assert not found.users[0].any()
    assert not found.items[0].any()
    assert torch.equal(found.users[2], found.users[3])
    assert found.users.isfinite().all()


def test_taste_is_learned_and_kept_on_the_sphere():
    factors = fit_ials(TRAIN, 16, Ials(catalogue_weight=50, sweeps=4))
    assert quality(factors.to_sphere(0.33)) > 0.9


def test_length_becomes_reach():
    items = torch.tensor([[3.0, 0], [0, 1], [0, 0]])
    vectors = Factors(torch.tensor([[0.0, 2]]), items).to_sphere(0.5)
    torch.testing.assert_close(vectors.item_table[:2], torch.tensor([[1.0, 0], [0, 1]]))
    torch.testing.assert_close(vectors.item_table.norm(dim=1), torch.ones(3))
    expected = torch.tensor([0.5 * np.log(3 / 2), 0.5 * np.log(1 / 2), 0.5 * np.log(1 / 2)])
    torch.testing.assert_close(vectors.reach, expected.float())


def test_the_weight_of_the_catalogue_is_chosen_on_hidden_pairs():
    chosen = Ials().resolve(TRAIN, 16)
    assert chosen.catalogue_weight in (100, 300, 1000, 3000)
    assert Ials().resolve(TRAIN, 16) == chosen
    assert Ials(catalogue_weight=5).resolve(TRAIN, 16).catalogue_weight == 5


@pytest.mark.parametrize("subspace_dim", [None, 8])
def test_a_start_without_epochs_is_the_model(subspace_dim):
    settings = Training(dim=16, subspace_dim=subspace_dim, reach=True, start=Ials(), epochs=0)
    run = Run(TRAIN, settings, crew=join("cpu"))
    assert run.config.start.catalogue_weight
    assert quality(train(run).vectors) > 0.9


def test_training_goes_on_from_the_start():
    settings = Training(dim=16, reach=True, start=Ials(catalogue_weight=50), epochs=2, loss=Softmin())
    begun = Ials(catalogue_weight=50).vectors(TRAIN, 16, 1, 0, torch.device("cpu"))
    trained = train(Run(TRAIN, settings, crew=join("cpu"))).vectors
    assert (trained.item_table * begun.item_table).sum(1).mean() > 0.5


def test_the_preset_is_a_model_like_others(tmp_path):
    model = CML.preset("quick", dim=16).fit(TRAIN)
    assert not model.history.epochs
    user = TRAIN.user_ids.array[0]
    assert len(model.recommend(user, k=3)) == 3
    model.save(tmp_path / "quick.spherec")
    model = load(tmp_path / "quick.spherec")
    model.partial_fit(Interactions.from_pairs([777, 777], TRAIN.item_ids.array[[0, 10]].tolist()))
    assert len(model.history.epochs) >= 3
    assert len(model.recommend(777, k=3)) == 3


def test_random_vectors_know_nothing():
    with pytest.raises(ArgumentError, match="epochs is 0"):
        Training(epochs=0)


@pytest.mark.parametrize(
    ("name", "value"),
    [("regularization", 0.0), ("reach_share", 11), ("catalogue_weight", -1), ("nu", 3), ("sweeps", 0)],
)
def test_settings_are_checked(name, value):
    with pytest.raises(ArgumentError, match=name):
        Ials(**{name: value})
