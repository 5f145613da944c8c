"""The model in RecTools: lists by its data sets, configs, and its evaluation compared with ours."""

import numpy as np
import pandas as pd
import pytest
from rectools.dataset import Dataset
from rectools.metrics import MRR, NDCG, HitRate, Precision, Recall, calc_metrics
from rectools.model_selection import RandomSplitter, cross_validate
from rectools.models import PopularModel, load_model, model_from_config

import spherec
from spherec.adapters.rectools import CMLModel
from tests.adapters.conftest import columns
from tests.docs.blocks import ROOT
from tests.docs.test_code_blocks import run_blocks

pytestmark = pytest.mark.filterwarnings("default")
SMALL = {"dim": 8, "epochs": 2, "validation": 0}


def make(data) -> Dataset:
    return Dataset.construct(as_frame(data))


def as_frame(data):
    return pd.DataFrame({**columns(data, "user_id", "item_id"), "weight": 1.0, "datetime": "2026-01-01"})


@pytest.fixture(scope="module")
def pairs():
    drawn = np.random.default_rng(3)
    found = {(f"u{drawn.integers(40)}", int(drawn.zipf(1.3)) % 60) for _ in range(600)}
    return spherec.Interactions.from_pairs(*zip(*sorted(found), strict=True))


@pytest.fixture(scope="module")
def model(pairs):
    return CMLModel(**SMALL).fit(make(pairs))


@pytest.mark.parametrize("filter_viewed", [True, False])
def test_lists_are_those_of_the_model(model, pairs, filter_viewed):
    users, only = ["u7", "u3", "u11"], [int(item) for item in pairs.item_ids[:30]]
    lists = model.recommend(users, make(pairs), 5, filter_viewed, items_to_recommend=only)
    ours = model.model.recommend(users, 5, exclude_seen=filter_viewed, only=only)
    assert [tuple(row) for row in lists[["user_id", "rank", "item_id"]].to_numpy()] == [
        (one.user, one.rank, one.item) for one in ours
    ]
    assert np.allclose(lists["score"], [one.score for one in ours])


def test_users_with_other_items_and_new_ones_are_placed_by_what_they_have(model):
    now = spherec.Interactions.from_pairs(["new", "new", "u3"], [1, 2, 2])
    lists = model.recommend(["new", "u3"], make(now), 4, True)
    for user, own in (("new", [1, 2]), ("u3", [2])):
        known = [one.item for one in model.model.recommend_for(own, 4, only=[1, 2])]
        assert lists[lists["user_id"] == user]["item_id"].tolist() == known


def test_similar_items_are_those_of_the_model(model, pairs):
    lists = model.recommend_to_items([1, 2], make(pairs), 4)
    ours = model.model.similar_items([1, 2], 4)
    assert lists["item_id"].tolist() == [one.similar for one in ours]


def test_configs_and_files_come_back(model, pairs, tmp_path):
    again = model_from_config(CMLModel(preset="fast", loss={"gamma": 0.5}, verbose=1).get_config(simple_types=True))
    assert again.get_params()["loss.gamma"] == 0.5
    model.save(tmp_path / "model")
    how = {"dataset": make(pairs), "k": 3, "filter_viewed": True, "users": ["u1"]}
    assert load_model(tmp_path / "model").recommend(**how).equals(model.recommend(**how))
    with pytest.raises(spherec.errors.ArgumentError, match="dims"):
        CMLModel(dims=8)


@pytest.mark.data
@pytest.mark.slow
def test_rectools_evaluation_gives_our_figures(movielens):
    model = CMLModel(preset="fast", dim=32, epochs=2, validation=0).fit(make(movielens.train))
    test = as_frame(movielens.test)
    lists = model.recommend(test["user_id"].unique(), make(movielens.train), 20, filter_viewed=True)
    metrics = {"ndcg": NDCG(20, divide_by_achievable=True), "mrr": MRR(20), "recall": Recall(20)}
    metrics |= {"precision": Precision(20), "hit_rate": HitRate(20)}
    theirs = calc_metrics(metrics, lists, test)
    ours = spherec.evaluate(model.model, movielens.train, movielens.test, k=20).summary()
    assert theirs == pytest.approx({name: ours[name] for name in metrics}, abs=5e-6)


def test_it_takes_part_in_a_cross_validation(pairs):
    how = {"metrics": {"recall": Recall(5)}, "k": 5, "filter_viewed": True}
    models = {"spherec": CMLModel(**SMALL), "popular": PopularModel()}
    found = cross_validate(make(pairs), RandomSplitter(0.2, n_splits=2, random_state=1), models=models, **how)
    assert {row["model"] for row in found["metrics"]} == {"spherec", "popular"}
    assert all(0 < row["recall"] <= 1 for row in found["metrics"])


@pytest.mark.slow
def test_the_page_prints_its_table():
    run_blocks(ROOT / "docs/how-to/in-rectools.md")
