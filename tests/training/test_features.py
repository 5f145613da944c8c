"""Training with item features: rows, gradients, the rows that are left out, cold items, checkpoints."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from spherec.data.features import Features
from spherec.data.interactions import Interactions
from spherec.embedding import FeatureTable
from spherec.errors import ArgumentError, DataError
from spherec.geometry import DenseVectors, measure_lengths, place_rows
from spherec.kernels.cpu import CpuBackend
from spherec.kernels.reference import Backend
from spherec.losses import Hinge, Softmin
from spherec.optim import Adam
from spherec.ranking import ExactRanker
from spherec.sampling import Popularity, TwoStage, Uniform
from spherec.training import Training
from spherec.training.step import Run
from tests.kernels import using
from tests.sampling.checks import CPU
from tests.training.runs import DATA, QUICK, SAMPLERS, train, trained

N_ITEMS, N_USERS, F, D = 7, 4, 3, 5


def features_of(data=DATA, n_features=6, without=(), seed=0):
    """Random features; some items are without."""
    matrix = np.random.default_rng(seed).normal(size=(data.n_items, n_features)).astype(np.float32)
    matrix[list(without)] = np.nan
    return Features.from_matrix(matrix, data.item_ids)


def table_of(subspaces=1, dropout=0.5, known=None, seed=0, config=None):
    """A small embedding, with the arrays that it was made of, as float64."""
    random = np.random.default_rng(0)
    rows, weights = random.normal(size=(N_ITEMS + N_USERS, subspaces, D)), random.normal(size=(subspaces, F + 1, D))
    known = np.ones(N_ITEMS, dtype=bool) if known is None else known
    numbers = random.normal(size=(N_ITEMS, F)) * known[:, None]
    numbers = np.concatenate((numbers, known[:, None]), axis=1)
    given = [torch.tensor(array, dtype=torch.float32) for array in (rows, weights, numbers)]
    table = FeatureTable(*given, config or Adam(), dropout=(dropout, seed), planned=1)
    return table, rows, weights, numbers


def expected_row(number, keep, rows, weights, numbers):
    """The raw row (P, d) of a number, by plain loops."""
    row = rows[number] * keep
    if number < N_ITEMS:
        for p in range(len(weights)):
            for f in range(F + 1):
                row[p] = row[p] + numbers[number, f] * weights[p, f]
    return row


@pytest.mark.parametrize("subspaces", [1, 2])
def test_a_raw_row_is_its_own_row_and_what_the_features_give(subspaces):
    table, *arrays = table_of(subspaces, known=np.arange(N_ITEMS) != 2)
    expected = np.stack(
        [expected_row(number, 1, *arrays) for number in range(N_ITEMS + N_USERS)]
    )  # (N_ITEMS + N_USERS, P, d)
    assert len(table) == N_ITEMS + N_USERS
    np.testing.assert_allclose(table.block(0, N_ITEMS + N_USERS), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(table.block(3, 9), expected[3:9], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(table.block(N_ITEMS, N_ITEMS + N_USERS), expected[N_ITEMS:], rtol=1e-5, atol=1e-5)
    index = torch.tensor([10, 0, 2, 6, 7, 2])
    np.testing.assert_allclose(table.rows(index).movedim(0, 1), expected[index], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(table.weights(), arrays[1], rtol=1e-5)


@pytest.mark.parametrize("kernels", [CpuBackend(), Backend()], ids=["compiled", "reference"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("subspaces", [1, 2])
def test_gradients_are_those_of_autograd(subspaces, dropout, kernels):
    config = Adam(beta1=0.5)
    with using(kernels):
        table, rows, weights, numbers = table_of(subspaces, dropout, np.arange(N_ITEMS) != 2, config=config)
    users, items = torch.tensor([9, 7, 9]), torch.tensor([0, 2, 5, 0, 1, 6, 5, 3])
    index = torch.cat((users, items))
    seen = table.training_rows(index, len(users)).double()  # (P, m, d)
    keep = table._kept.double() if dropout else torch.ones(len(items), dtype=torch.float64)

    own = torch.tensor(rows, requires_grad=True)
    w = torch.tensor(weights, requires_grad=True)
    x = torch.tensor(numbers)
    parts = [own[users].movedim(1, 0), keep[None, :, None] * own[items].movedim(1, 0) + x[items] @ w]
    raw = torch.cat(parts, dim=1)  # (P, m, d)
    torch.testing.assert_close(seen, raw.detach(), rtol=1e-5, atol=1e-5)

    def objective(raw):
        unit = raw / raw.norm(dim=-1, keepdim=True)
        products = unit[:, : len(users)] @ unit[:, len(users) :].movedim(1, 2)  # (P, B, n)
        return (products * torch.arange(products[0].numel()).view_as(products[0])).logsumexp(-1).sum()

    leaf = seen.clone().requires_grad_()
    (given,) = torch.autograd.grad(objective(leaf), leaf)
    of_rows, of_weights = torch.autograd.grad(objective(raw), (own, w))
    table.step(index, given.float(), len(users))
    mean = table.state()["mean"] / (1 - config.beta1)  # after one step, Adam's first moment is a share of the gradient
    split = (N_ITEMS + N_USERS) * subspaces
    torch.testing.assert_close(
        mean[:split].view(N_ITEMS + N_USERS, subspaces, D).double(), of_rows, rtol=1e-4, atol=1e-4
    )
    learned = (
        mean[split:].view(F + 1, subspaces, D).movedim(0, 1).double() / table._scale
    )  # features were scaled by as much
    torch.testing.assert_close(learned, of_weights, rtol=1e-4, atol=1e-4)


def test_the_share_of_rows_that_are_left_out():
    n, steps = 2000, 60
    known = torch.arange(n) % 10 > 0
    for dropout in (0.25, 0.5, 0.75):
        numbers, weights = torch.stack((torch.zeros(n), known), 1), torch.zeros(1, 2, 2)
        table = FeatureTable(torch.ones(n, 1, 2), weights, numbers, Adam(), dropout=(dropout, 3), planned=1)
        items, kept = torch.arange(n), []
        for _ in range(steps):
            kept.append(table.training_rows(items, 0)[0, :, 0] > 0)
            assert torch.equal(kept[-1], table.training_rows(items, 0)[0, :, 0] > 0)  # the same until the next step
            table.state()["steps"].add_(1)
        kept = torch.stack(kept)  # (S, n)
        assert bool(kept[:, ~known].all())  # items without features are never left out
        counts = (~kept[:, known]).sum(0).double()  # (n',) binomial
        variance = steps * dropout * (1 - dropout)
        chi_square = float(((counts - steps * dropout) ** 2 / variance).mean())
        assert 0.85 < chi_square < 1.15
        apart = (~kept[:, known]).double()
        assert abs(float(apart.mean()) - dropout) < 0.01
        neighbours = np.corrcoef(apart[:-1].flatten(), apart[1:].flatten())[0, 1]  # step after step
        beside = np.corrcoef(apart[:, :-1].flatten(), apart[:, 1:].flatten())[0, 1]  # item after item
        assert max(abs(neighbours), abs(beside)) < 0.02


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
@pytest.mark.parametrize(
    "loss", [Hinge(), Hinge(rank_weight=True), Softmin(0.2)], ids=["hinge", "rank weight", "softmin"]
)
@pytest.mark.parametrize("settings", [{}, {"subspace_dim": 4, "reach": True}], ids=["one space", "subspaces, reach"])
def test_each_loss_and_sampler_learns(loss, sampler, settings):
    result = trained(loss=loss, sampler=sampler, features=features_of(without=[1, 5]), **settings)
    assert bool(torch.isfinite(result.vectors.item_table).all())
    first = trained(loss=loss, sampler=sampler, features=features_of(without=[1, 5]), epochs=1, **settings)
    assert not torch.equal(first.feature_map.weights, result.feature_map.weights)
    assert result.history.epochs[-1].loss < result.history.epochs[0].loss


# --- Planted data: users like the items of their own topic, and features tell topics ---------------------------------

TOPICS, WARM, COLD = 6, 15, 5  # topics; items of each that people have, and that nobody has


def planted():
    """Pairs of warm items alone, features of all items, and the topic of each user and item."""
    random = np.random.default_rng(1)
    n_items, n_users = TOPICS * (WARM + COLD), 90
    topic_of_item, topic_of_user = np.arange(n_items) % TOPICS, np.arange(n_users) % TOPICS
    is_cold = np.arange(n_items) >= TOPICS * WARM
    likes = np.zeros((n_users, n_items), dtype=int)
    for user in range(n_users):
        liked = np.flatnonzero((topic_of_item == topic_of_user[user]) & ~is_cold)
        likes[user, random.choice(liked, 8, replace=False)] = 1
    centres = random.normal(size=(TOPICS, 10))
    matrix = centres[topic_of_item] + 0.2 * random.normal(size=(n_items, 10))
    data = Interactions.from_matrix(likes)
    return data, Features.from_matrix(matrix, data.item_ids), topic_of_user, topic_of_item, np.flatnonzero(is_cold)


PLANTED, CONTENT, USER_TOPIC, ITEM_TOPIC, NEW = planted()


def find_new_items(vectors):
    """The share of a user's nearest new items that are of their topic."""
    ranking = ExactRanker(vectors).top(np.arange(PLANTED.n_users), COLD, only=NEW)
    return float(np.mean(ITEM_TOPIC[ranking.items] == USER_TOPIC[:, None]))


@pytest.mark.parametrize("reach", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {"loss": Softmin(), "sampler": Popularity(40, shared=True)},
        {"loss": Softmin(), "sampler": Uniform(40, shared=True)},
        {"loss": Hinge(), "sampler": TwoStage(3, candidates=40)},
        {"loss": Hinge(), "sampler": Uniform(3)},
    ],
    ids=["softmin, popularity", "softmin, uniform", "two-stage", "uniform"],
)
def test_features_place_items_that_nobody_has(settings, reach):
    config = Training(dim=16, optimizer=Adam(1e-2), batch_size=64, epochs=12, reach=reach, **settings)
    without = train(PLANTED, config, device=CPU)
    result = train(PLANTED, config, features=CONTENT, device=CPU)
    assert find_new_items(without.vectors) < 0.5
    assert find_new_items(result.vectors) > 0.9


def test_an_item_that_nobody_has_is_where_its_features_place_it():
    config = replace(QUICK, reach=True, subspace_dim=4, loss=Softmin(), sampler=Uniform(20, shared=True))
    result = train(PLANTED, config, features=CONTENT, device=CPU)
    rows = result.feature_map.place(torch.tensor(CONTENT.matrix[NEW]))  # (n, P, d + 1)
    torch.testing.assert_close(result.vectors.item_table[NEW], place_rows(rows, "sphere", reach=True))
    torch.testing.assert_close(result.vectors.item_reach[NEW], rows[..., -1] * result.config.loss.temperature)
    torch.testing.assert_close(result.feature_map.lengths[NEW], measure_lengths(rows, reach=True))


def test_an_item_that_nobody_has_is_no_negative():
    run = Run(PLANTED, replace(QUICK, sampler=Uniform(60, shared=True)), first_vectors(), CONTENT)
    before = run.vectors.items(torch.tensor(NEW))
    run.step(*(torch.tensor(column[:16].copy()).long() for column in (PLANTED.users, PLANTED.indices)))
    last = run.embedding.state()["last"]
    assert bool((last[NEW] <= 1).all())
    assert bool((run.embedding.state()["mean"][NEW] == 0).all())  # none of their rows has a gradient
    assert not torch.equal(before, run.vectors.items(torch.tensor(NEW)))  # but the map moves them


def first_vectors():
    generator = torch.Generator().manual_seed(0)
    return DenseVectors.random(PLANTED.n_users, PLANTED.n_items, QUICK.dim, generator)


# --- Runs that are stopped, chosen, continued ------------------------------------------------------------------------


def test_the_checkpoint_of_other_features_is_refused(tmp_path):
    path = tmp_path / "run.checkpoint"
    trained(features=features_of(), epochs=1, checkpoint=path)
    for other in (None, features_of(seed=1), features_of(without=[1])):
        with pytest.raises(DataError, match="features"):
            trained(features=other, checkpoint=path, resume=True)


def test_a_run_begins_where_another_ended():
    settings = {"reach": True, "subspace_dim": 4, "loss": Softmin(0.2), "sampler": Popularity(12, shared=True)}
    features = features_of(without=[4])
    ended = trained(features=features, **settings)
    config = replace(QUICK, **settings)
    run = Run(DATA, config, ended.vectors, features, ended.feature_map)
    again = run.vectors.copy()
    torch.testing.assert_close(again.item_table, ended.vectors.item_table)
    torch.testing.assert_close(again.item_reach, ended.vectors.item_reach)
    torch.testing.assert_close(run.copy_feature_map().lengths, ended.feature_map.lengths)
    torch.testing.assert_close(run.copy_feature_map().weights, ended.feature_map.weights)


def test_what_cannot_be_is_refused():
    with pytest.raises(ArgumentError, match="item features need constraint 'sphere', got 'ball'"):
        trained(features=features_of(), constraint="ball")
    other = Features.from_matrix(np.eye(3), ["a", "b", "c"])
    with pytest.raises(ArgumentError, match=r"in the same order; use features\.align"):
        trained(features=other)
    for wrong in (-0.1, 1, 1.5, "half"):
        with pytest.raises(ArgumentError, match="feature_dropout must be"):
            Training(feature_dropout=wrong)
