"""`POST /items`: items are placed by their features, the file is replaced, and the server answers from it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("pandas")

import httpx

from spherec.data.output_files import lock_output
from spherec.recommender import load
from spherec.serve import ServeOptions, service
from tests.recommender.test_new_items import NEW, fitted
from tests.serve.running import in_thread


@pytest.fixture(scope="module")
def trained():
    return fitted(epochs=3)


@pytest.fixture
def with_features(trained, tmp_path):
    trained.save(tmp_path / "model.spherec")
    return tmp_path / "model.spherec"


def rows_of(frame):
    rows = frame.to_dict("records")
    return [{"id": row.pop("isbn"), "name": f"Book {row['year']}", "features": row} for row in rows]


def post(address, *items):
    return httpx.post(f"{address}/items", json={"items": items}, timeout=30)


def test_added_items_are_placed_as_by_the_library(with_features):
    expected = load(with_features).add_items(NEW)
    options = ServeOptions(with_features, writable=True, watch_seconds=0, log_requests=False)
    with in_thread(options) as address:
        before = httpx.get(f"{address}/model").json()
        answer = post(address, *rows_of(NEW)).json()
        after = httpx.get(f"{address}/model").json()
        assert (answer["added"], after["items"]) == (len(NEW), before["items"] + len(NEW))
        assert answer["model"] == after["model"] == load(with_features).artifact.checksum != before["model"]
        listed = httpx.get(f"{address}/recommend/r1", params={"k": 20}).json()["items"]
        results = expected.recommend("r1", 20)
        assert [item["id"] for item in listed] == list(results.columns["item"])
        assert [item["score"] for item in listed] == pytest.approx(results.columns["score"], abs=1e-6)
        assert httpx.get(f"{address}/items/b100").json()["item"]["name"] == "Book 2010"
        assert post(address, *rows_of(NEW[:1])).status_code == 422
        little = post(address, {"id": "x", "features": {"genre": "crime"}})
        assert (little.status_code, little.json()["ignored"]) == (200, {"year: missing": 1, "blurb: missing": 1})
        nothing = post(address, {"id": "y", "features": {"gnere": "crime"}})
        assert (nothing.status_code, "'y'" in nothing.json()["error"]) == (422, True)


def test_ids_are_spelled_as_those_of_the_model_and_missing_ones_refused(with_features):
    features = {"genre": "crime"}
    with in_thread(ServeOptions(with_features, writable=True, log_requests=False)) as address:
        for wrong in ("", "NaN", "x"):
            assert post(address, *({"id": one, "features": features} for one in ("x", wrong))).status_code == 422
        assert post(address, {"id": 77, "name": "Book 77", "features": features}).status_code == 200
        assert httpx.get(f"{address}/items/77").json()["item"]["name"] == "Book 77"
    assert load(with_features).data.item_ids[-1:] == ["77"]


def test_a_server_adds_nothing_unless_it_may_and_can(client, model_file):
    answer = post(client.base_url, {"id": "x", "features": {}})
    assert (answer.status_code, "--writable" in answer.json()["error"]) == (403, True)
    with in_thread(ServeOptions(model_file, writable=True, log_requests=False)) as address:
        answer = post(address, {"id": "x", "features": {}})
        assert (answer.status_code, "trained without features" in answer.json()["error"]) == (422, True)


def test_processes_that_add_wait_for_each_other(with_features):
    rows = rows_of(NEW)
    options = ServeOptions(with_features, writable=True, watch_seconds=0, log_requests=False)
    with in_thread(options) as one, in_thread(options) as other, ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(post, (one, other), rows))
        assert [answer.status_code for answer in answers] == [200, 200]
        for address in (one, other):  # neither has been told of the other's item
            for row in rows[:2]:
                assert httpx.get(f"{address}/similar/{row['id']}").status_code == 200


def test_adding_does_not_wait_forever(with_features, monkeypatch):
    monkeypatch.setattr(service, "_LONGEST_TURN", 0.1)
    options = ServeOptions(with_features, writable=True, log_requests=False)
    with in_thread(options) as address, lock_output(with_features):
        answer = post(address, *rows_of(NEW[:1]))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "another process" in answer.json()["error"]
