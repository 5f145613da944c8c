"""Users who were not there in training: placed where a slower method finds them the best place."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import spherec
from spherec.artifact import Artifact
from spherec.data.interactions import Interactions
from spherec.geometry import DenseVectors
from spherec.ials import Ials, fit_ials
from spherec.recommender.fold_in import FoldIn
from spherec.sampling import Hard, Popularity, TwoStage, Uniform
from spherec.training import History, Run, Trained, Training, train
from tests.recommender.models import ITEMS, USERS, model_of, small
from tests.sampling.checks import directions, random_rows, sparse

DATA = small(density=0.3)
MODEL = model_of(DATA)
CONFIGS = {
    "hinge": Training(dim=6, sampler=Uniform(2)),
    "two-stage": Training(dim=6, sampler=TwoStage()),
    "a wide margin": Training(dim=6, loss=spherec.Hinge(2.0), sampler=Hard()),
    "softmin": Training(dim=6, loss=spherec.Softmin(0.3, 0.5), sampler=Popularity(9, beta=0.7, shared=True)),
    "softmin, two-stage": Training(dim=6, loss=spherec.Softmin(0.1), sampler=TwoStage()),
    "ball": Training(dim=6, constraint="ball"),
    "reach": Training(dim=6, loss=spherec.Softmin(0.1, 0.8), sampler=Popularity(9, beta=0.7), reach=True),
    "reach, hinge": Training(dim=6, sampler=Uniform(2), reach=True),
}


def fold_in_of(vectors, data, config):
    return FoldIn(Artifact.of(Trained(vectors, config, History(), "all epochs done"), data))


def objective(user, items, fold_in, table, reach=None):
    """What a place is worth, in plain loops: τ log Σ w exp(s/τ) − mean s, where s is −d²/2 and half of the reach."""

    def distance(item):
        return sum((float(a) - float(b)) ** 2 for a, b in zip(user, table[item], strict=True))

    total = 0.0
    for item, log_weight in zip(fold_in.pool.items.tolist(), fold_in.pool.log_weight.tolist(), strict=True):
        if item not in items:
            half = 0.0 if reach is None else reach[item] / 2  # that of their own items does not move the user
            total += np.exp(log_weight + (half - distance(item) / 2) / fold_in.pool.temperature)
    return fold_in.pool.temperature * np.log(total) + sum(distance(item) for item in items) / 2 / len(items)


# --- The place -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("items", [[3], [0, 5, 9], list(range(20))], ids=["one item", "three", "twenty"])
def test_it_is_where_a_slower_method_puts_it(config, items):
    lengths = torch.linspace(0.3, 1, 200)[:, None] if config.constraint == "ball" else 1.0
    vectors = DenseVectors(directions(12, 6), directions(200, 6, 5) * lengths, config.constraint)
    reach = None
    if config.reach:
        vectors = replace(vectors, item_reach=torch.linspace(-0.4, 0.6, 200)[:, None])
        reach = vectors.item_reach[:, 0].tolist()
    fold_in = fold_in_of(vectors, small(items=range(200)), config)
    place = fold_in.place(np.array(items, np.int32)).numpy().astype(np.float64)
    table = vectors.item_table.tolist()

    def within(row):
        length = np.linalg.norm(row)
        return row / length if config.constraint == "sphere" else row / max(length, 1)

    slow = min(
        minimize(lambda row: objective(within(row), items, fold_in, table, reach), start, method="BFGS").fun
        for start in (place, np.mean([table[item] for item in items], axis=0))
    )
    assert objective(place, items, fold_in, table, reach) == pytest.approx(slow, abs=1e-3)
    assert np.linalg.norm(place) <= 1 + 1e-6
    if config.constraint == "sphere":
        assert np.linalg.norm(place) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("name", ["softmin", "ball", "reach"])
def test_in_subspaces_it_is_the_best_place_of_each(name):
    config, data = CONFIGS[name], small(items=range(200))
    lengths = torch.linspace(0.3, 1, 200)[:, None] if name == "ball" else 1.0
    tables = [directions(200, 6, part) * lengths for part in range(3)]
    reach = directions(200, 3, 7) / 5 if config.reach else None  # in each subspace
    whole = DenseVectors(directions(12, 18), torch.cat(tables, dim=1) / 3**0.5, config.constraint, reach)
    place = fold_in_of(whole, data, replace(config, dim=18, subspace_dim=6)).place(np.array([0, 5, 9], np.int32))
    spaces = [
        DenseVectors(directions(12, 6), table, config.constraint, None if reach is None else reach[:, part : part + 1])
        for part, table in enumerate(tables)
    ]
    alone = [fold_in_of(space, data, config).place(np.array([0, 5, 9], np.int32)) for space in spaces]
    torch.testing.assert_close(place, torch.cat(alone) / 3**0.5, atol=1e-5, rtol=0)


def test_negatives_follow_the_sampler_and_are_never_items_that_nobody_has():
    data = sparse(np.arange(0, 201, 2), [item for _ in range(100) for item in (0, 1)], 5)
    for config in CONFIGS.values():
        vectors = DenseVectors(directions(100, 6), directions(5, 6))
        assert set(fold_in_of(vectors, data, config).pool.items.tolist()) == {0, 1}


def test_items_that_nobody_had_in_training_do_not_count():
    data = DATA.filter(DATA.indices != 4)
    fold_in = FoldIn(model_of(data).artifact)
    assert torch.equal(fold_in.place(np.array([3, 4], np.int32)), fold_in.place(np.array([3], np.int32)))
    for items in ([4], range(30)):  # all that is known about her, and everything
        assert fold_in.place(np.array(items, np.int32)).norm() == pytest.approx(1)


# --- Asking for somebody new -----------------------------------------------------------------------------------------


def test_folding_in_adds_users_and_moves_nothing():
    before = MODEL.vectors.item_table.clone(), MODEL.vectors.user_table.clone(), MODEL.data
    lacking = next(item for index, item in enumerate(ITEMS) if index not in DATA.items_of(3))
    new = Interactions.from_pairs(["zoe", "zoe", "max", "u3"], ["i1", "i2", "i5", lacking])
    larger = MODEL.fold_in(new)
    assert torch.equal(MODEL.vectors.item_table, before[0])
    assert torch.equal(MODEL.vectors.user_table, before[1])
    assert MODEL.data is before[2]
    assert torch.equal(larger.vectors.item_table, before[0])
    kept = [index for index, user in enumerate(USERS) if user != "u3"]
    assert torch.equal(larger.vectors.user_table[kept], before[1][kept])
    assert list(larger.data.user_ids)[:12] == USERS
    assert set(larger.data.user_ids) - set(USERS) == {"zoe", "max"}
    lists = [(one.item, one.score) for one in larger.recommend("zoe", 4)]
    assert lists == [(one.item, one.score) for one in MODEL.recommend_for(["i1", "i2"], 4)]
    old = [DATA.item_ids[int(item)] for item in DATA.items_of(3)]
    lists = [one.item for one in larger.recommend("u3", 4)]
    assert lists == [one.item for one in MODEL.recommend_for([*old, lacking], 4)], "by old and new items together"


# --- In closed form --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [16, 4], ids=["fewer items than dimensions", "more"])
@pytest.mark.parametrize("subspaces", [1, 2])
def test_a_model_that_is_its_start_places_users_as_its_factors_do(dim, subspaces):
    data = Interactions.from_matrix(random_rows(120, 40, 0.15, 3))
    settings = Ials(catalogue_weight=20.0, regularization=0.05, sweeps=30)
    config = Training(dim=dim * subspaces, subspace_dim=dim, reach=True, start=settings, epochs=0)
    fold_in = FoldIn(Artifact.of(train(Run(data, config)), data))
    factors = [fit_ials(data, dim, settings, seed=config.seed + one) for one in range(subspaces)]
    likeness = []
    for user in range(40):
        items = data.items_of(user)
        parts = []
        for factor in factors:
            table = factor.items.double().numpy()
            system = settings.catalogue_weight / 40 * table.T @ table + table[items].T @ table[items]
            system += np.eye(dim) * settings.regularization * (len(items) + settings.catalogue_weight)
            row = np.linalg.solve(system, table[items].sum(0))
            parts.append(row / np.linalg.norm(row) / subspaces**0.5)
        likeness.append(fold_in.place(items).numpy() @ np.concatenate(parts))
    assert min(likeness) > 0.999


def test_a_start_without_reach_places_users_as_trained_models_do():
    model = spherec.CML.preset("quick", dim=8, reach=False, device="cpu").fit(DATA, progress=False)
    assert np.isfinite(model.place(np.array([0, 3]))).all()
