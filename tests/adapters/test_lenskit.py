"""The scorer in LensKit: its own conformance tests, and its evaluation compared with ours."""

import numpy as np
import pandas as pd
import pytest
from lenskit import batch
from lenskit.data import ItemList, ItemListCollection, RecQuery, from_interactions_df
from lenskit.metrics import NDCG, Hit, Precision, RecipRank, RunAnalysis
from lenskit.metrics.ranking import LogRankWeight
from lenskit.pipeline import topn_pipeline
from lenskit.testing import BasicComponentTests, ScorerTests, ml_100k  # noqa: F401
from lenskit.training import TrainingOptions

import spherec
from spherec.adapters.lenskit import CMLConfig, CMLScorer
from spherec.errors import TrainingError
from tests.adapters.conftest import columns
from tests.docs.blocks import ROOT
from tests.docs.test_code_blocks import run_blocks

pytestmark = pytest.mark.filterwarnings("default")
SMALL = {"dim": 8, "epochs": 2, "validation": 0}


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture(scope="module")
def ml_ratings():
    """Ratings of 300 users, as LensKit's tests want them."""
    drawn = np.random.default_rng(3)
    frame = pd.DataFrame({"user_id": drawn.integers(1, 301, 9000), "item_id": drawn.zipf(1.3, 9000) % 400})
    frame = frame.drop_duplicates().reset_index(drop=True)
    return frame.assign(rating=drawn.integers(1, 6, len(frame)).astype("f4"), timestamp=drawn.permutation(len(frame)))


@pytest.fixture(scope="module")
def ml_ds(ml_ratings):
    return from_interactions_df(ml_ratings)


class TestConformance(BasicComponentTests, ScorerTests):
    component = CMLScorer
    config = CMLConfig(preset="fast", **SMALL)
    configs = ({"preset": "fast", **SMALL}, {"loss": {"margin": 0.5}})
    can_score = "known"

    def verify_models_equivalent(self, orig, copy):
        assert np.array_equal(orig.model.vectors.item_table, copy.model.vectors.item_table)


@pytest.fixture(scope="module")
def scorer(ml_ds):
    made = CMLScorer(**SMALL)
    made.train(ml_ds)
    return made


def test_users_are_where_training_put_them_unless_their_items_changed(scorer, ml_ds):
    user, few = ml_ds.users.id(0), ItemList(item_nums=[1, 2, 3], vocabulary=ml_ds.items)
    every, row = ItemList.from_vocabulary(ml_ds.items), ml_ds.user_row(user)
    ours = scorer.model.score(int(user), scorer.model.data.item_ids)
    for query in (user, RecQuery(user_id=user, history_items=row)):
        assert np.allclose(scorer(query, every).scores(), ours, atol=1e-6)
    ranked = {each.item: each.score for each in scorer.model.recommend_for(few.ids(), k=50)}
    placed = scorer(RecQuery(user_id=user, history_items=few), every)
    scores = dict(zip(placed.ids().tolist(), placed.scores().tolist(), strict=True))
    assert ranked == pytest.approx({item: scores[item] for item in ranked}, abs=1e-6)


def test_a_seed_of_lenskit_decides_and_wrong_settings_are_refused_at_once(ml_ds):
    tables = []
    for seed in (1, 1, 2):
        made = CMLScorer(**SMALL)
        made.train(ml_ds, TrainingOptions(rng=seed))
        tables.append(made.model.vectors.item_table.numpy())
    assert np.array_equal(tables[0], tables[1])
    assert not np.array_equal(tables[0], tables[2])
    with pytest.raises(ValueError, match="dims"):
        CMLScorer(dims=8)
    with pytest.raises(TrainingError):
        CMLScorer()(1, ItemList())


@pytest.mark.data
@pytest.mark.slow
def test_lenskits_evaluation_gives_our_figures(movielens):
    train, test = (pd.DataFrame(columns(part, "user_id", "item_id")) for part in (movielens.train, movielens.test))
    pipe = topn_pipeline(CMLScorer(preset="fast", dim=32, epochs=2, validation=0), n=20)
    pipe.train(from_interactions_df(train))
    held_out = ItemListCollection.from_df(test, ["user_id"])
    lists = batch.recommend(pipe, held_out.keys(), n=20, n_jobs=1)
    analysis = RunAnalysis()
    for metric in (NDCG(20, weight=LogRankWeight(offset=1)), RecipRank(20), Hit(20), Precision(20)):
        analysis.add_metric(metric)
    theirs = analysis.measure(lists, held_out).list_summary()["mean"]
    model = pipe.component("scorer").model
    ours = spherec.evaluate(model, movielens.train, movielens.test, k=20).summary()
    names = {"NDCG@20": "ndcg", "RecipRank@20": "mrr", "Hit@20": "hit_rate", "Precision@20": "precision"}
    assert {name: theirs[name] for name in names} == pytest.approx({n: ours[o] for n, o in names.items()}, abs=5e-6)


@pytest.mark.slow
def test_the_page_prints_its_table():
    run_blocks(ROOT / "docs/how-to/in-lenskit.md")
