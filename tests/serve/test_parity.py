"""Random requests of every kind, from several clients at once: the lists of the library, bit for bit."""

import random
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from spherec.recommender import load
from spherec.serve import ServeOptions
from tests.recommender.models import ITEMS, USERS, model_of, small
from tests.serve.running import in_thread


def pairs(items):
    return [(item["id"], item["score"]) for item in items]


def rows(results, column="item"):
    return list(zip(results.columns[column], results.columns["score"], strict=True))


def ask_at_random(client, model, rng):
    """Send one request of a random kind, and compare its answer with the library's."""
    k, user, item = rng.randint(1, 35), rng.choice(USERS), rng.choice(ITEMS)
    dial = rng.choice([None, rng.uniform(-1, 1)]) if model.vectors.reach is not None else None
    match rng.randrange(6):
        case 0:
            options = {"mainstream": dial, "exclude_seen": rng.random() < 0.5}
            options |= {"only": rng.sample(ITEMS, 9)} if rng.random() < 0.4 else {}
            options |= {"exclude": rng.sample(ITEMS, 5)} if rng.random() < 0.4 else {}
            users, offset = rng.sample(USERS, rng.randint(1, 4)), rng.randint(0, 5)
            answer = client.post("/recommend", json={"users": users, "k": k, "offset": offset, **options}).json()
            for one, listed in zip(users, answer["lists"], strict=True):
                assert pairs(listed["items"]) == rows(model.recommend(one, k + offset, **options))[offset:]
        case 1:
            own = rng.sample(ITEMS, rng.randint(1, 6))
            answer = client.post("/recommend", json={"items": own, "k": k, "mainstream": dial}).json()
            assert pairs(answer["lists"][0]["items"]) == rows(model.recommend_for(own, k, mainstream=dial))
        case 2:
            answer = client.get(f"/recommend/{user}", params={"k": k, "explain": 2}).json()
            assert pairs(answer["items"]) == rows(model.recommend(user, k))
            for listed in answer["items"]:
                assert pairs(listed["because"]) == rows(model.explain(user, listed["id"], 2), "because")
        case 3:
            answer = client.get(f"/similar/{item}", params={"k": k}).json()
            assert pairs(answer["items"]) == rows(model.similar_items(item, k), "similar")
        case 4:
            answer = client.get(f"/explain/{user}/{item}", params={"k": k}).json()
            assert pairs(answer["because"]) == rows(model.explain(user, item, k), "because")
            assert answer["score"] == model.score(user, item)[0]
        case 5:
            body = {"users": [user], "items": rng.sample(ITEMS, 4), "mainstream": dial}
            answer = client.post("/score", json=body).json()
            assert answer["scores"] == model.score(user, body["items"], mainstream=dial).tolist()


@pytest.mark.parametrize("n_requests", [80, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("constraint", "mainstream", "index"), [("sphere", 0.4, False), ("ball", None, True)])
def test_the_lists_are_those_of_the_library(tmp_path, n_requests, constraint, mainstream, index):
    path = tmp_path / "model.spherec"
    model_of(small(), constraint=constraint, mainstream=mainstream).save(path)
    if index:
        usearch = pytest.importorskip("spherec.ranking.usearch", reason="needs the extra ann")
        load(path).build_index(path.with_suffix(".usearch"), usearch.Hnsw(exact_beyond=1.0))
    model = load(path, index=index)
    options = ServeOptions(path, index=path.with_suffix(".usearch") if index else None, log_requests=False)

    def ask_many(seed):
        rng = random.Random(seed)
        with httpx.Client(base_url=address) as client:
            for _ in range(n_requests // 8):
                ask_at_random(client, model, rng)

    with in_thread(options) as address, ThreadPoolExecutor(8) as threads:
        assert len(list(threads.map(ask_many, range(8)))) == 8
