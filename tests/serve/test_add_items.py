"""`POST /items`: items are placed by their features, the file is replaced, and the server answers from it."""

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("pandas")

import httpx

from spherec.recommender import load
from spherec.serve import ServeOptions
from tests.recommender.test_new_items import NEW, fitted
from tests.serve.running import in_thread


@pytest.fixture(scope="module")
def with_features(tmp_path_factory):
    path = tmp_path_factory.mktemp("features") / "model.spherec"
    fitted(epochs=3).save(path)
    return path


def rows_of(frame):
    rows = frame.to_dict("records")
    return [{"id": row.pop("isbn"), "name": f"Book {row['year']}", "features": row} for row in rows]


def test_added_items_are_placed_as_by_the_library(with_features):
    expected = load(with_features).add_items(NEW)
    options = ServeOptions(with_features, writable=True, watch_seconds=0, log_requests=False)
    with in_thread(options) as address:
        before = httpx.get(f"{address}/model").json()
        answer = httpx.post(f"{address}/items", json={"items": rows_of(NEW)}, timeout=30).json()
        after = httpx.get(f"{address}/model").json()
        assert (answer["added"], after["items"]) == (len(NEW), before["items"] + len(NEW))
        assert answer["model"] == after["model"] == load(with_features).artifact.checksum != before["model"]
        listed = httpx.get(f"{address}/recommend/r1", params={"k": 20}).json()["items"]
        results = expected.recommend("r1", 20)
        assert [item["id"] for item in listed] == list(results.columns["item"])
        assert [item["score"] for item in listed] == pytest.approx(results.columns["score"], abs=1e-6)
        assert httpx.get(f"{address}/items/b100").json()["item"]["name"] == "Book 2090"
        again = httpx.post(f"{address}/items", json={"items": rows_of(NEW[:1])})
        assert again.status_code == 422
        wrong = httpx.post(f"{address}/items", json={"items": [{"id": "x", "features": {"genre": "crime"}}]})
        assert (wrong.status_code, "no column 'year'" in wrong.json()["error"]) == (422, True)


def test_a_server_adds_nothing_unless_it_may(client):
    answer = client.post("/items", json={"items": [{"id": "x", "features": {}}]})
    assert (answer.status_code, "--writable" in answer.json()["error"]) == (403, True)


def test_a_model_without_features_says_so(model_file):
    options = ServeOptions(model_file, writable=True, log_requests=False)
    with in_thread(options) as address:
        answer = httpx.post(f"{address}/items", json={"items": [{"id": "x", "features": {}}]}, timeout=30)
        assert (answer.status_code, "trained without features" in answer.json()["error"]) == (422, True)
