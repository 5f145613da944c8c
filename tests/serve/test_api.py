"""The HTTP API: the lists of the model, and one sentence for every error."""

import pytest

from tests.recommender.models import ITEMS
from tests.serve.test_parity import pairs, rows


def test_one_request_for_users_a_new_user_and_a_vector(client, model):
    vector = model.vectors.user_table[3].tolist()
    body = {"users": ["u1", "nobody", "u5"], "items": ["i3", "i4"], "vectors": [vector], "k": 4, "unknown": "skip"}
    answer = client.post("/recommend", json=body).json()
    first, second, new, place = answer["lists"]
    assert answer["model"] == model.artifact.checksum
    assert [one["user"] for one in answer["lists"]] == ["u1", "u5", None, None]
    assert pairs(first["items"]) == rows(model.recommend("u1", 4))
    assert pairs(second["items"]) == rows(model.recommend("u5", 4))
    assert pairs(new["items"]) == rows(model.recommend_for(["i3", "i4"], 4))
    assert pairs(place["items"]) == rows(model.recommend("u3", 4, exclude_seen=False))


def test_filter_by_columns(client, model):
    wanted = {"author": "author1", "year": [1991, "1992"]}
    (answer,) = client.post("/recommend", json={"users": ["u0"], "filter": wanted, "k": 9}).json()["lists"]
    allowed = [f"i{n}" for n in range(25) if n % 3 == 1 and n % 5 in (1, 2)]
    assert pairs(answer["items"]) == rows(model.recommend("u0", 9, only=allowed))


def test_nobody_is_without_a_list(client, model):
    body = {"users": ["u1", "zoe"], "items": [], "k": 5, "unknown": "popular", "filter": {"year": {">=": 1993}}}
    lists = client.post("/recommend", json=body).json()["lists"]
    only = [f"i{n}" for n in range(25) if n % 5 >= 3]
    popular = rows(model.recommend_for([], 5, only=only))
    assert [one.get("fallback") for one in lists] == [None, "popular", "popular"]
    assert [one["user"] for one in lists] == ["u1", "zoe", None]
    assert pairs(lists[0]["items"]) == rows(model.recommend("u1", 5, only=only))
    assert pairs(lists[1]["items"]) == pairs(lists[2]["items"]) == popular
    visitor = client.get("/recommend/zoe", params={"unknown": "popular", "k": 3, "explain": 2}).json()
    assert (visitor["user"], visitor["fallback"]) == ("zoe", "popular")
    assert pairs(visitor["items"]) == rows(model.recommend_for([], 3))


def test_similar_items_are_filtered_and_stock_lists_may_have_unknown_items(client, model):
    body = {"item": "i3", "k": 6, "only": [*ITEMS[:20], "new"], "exclude": ["i4", "gone"], "diversity": 0.5}
    answer = client.post("/similar", json={**body, "filter": {"author": ["author0", "author1"]}}).json()
    only = [item for n, item in enumerate(ITEMS[:20]) if n % 3 < 2]
    expected = model.similar_items("i3", 6, only=only, exclude=["i4"], diversity=0.5)
    assert pairs(answer["items"]) == rows(expected, "similar")
    assert answer["skipped"] == 2
    near = client.get("/similar/i3", params={"diversity": 0.5, "k": 6}).json()
    assert pairs(near["items"]) == rows(model.similar_items("i3", 6, diversity=0.5), "similar")


def test_search_finds_words_without_case_and_accents_and_else_what_is_popular(client, model):
    found = client.get("/search", params={"q": "zoe I17"}).json()
    assert [item["id"] for item in found["items"]] == ["i17"]
    users = client.get("/search", params={"q": "u1", "kind": "users"}).json()["users"]
    assert sorted(user["id"] for user in users) == ["u1", "u10", "u11"]
    items = client.get("/search", params={"k": 30}).json()["items"]
    assert [item["users"] for item in items] == sorted(model.data.users_per_item.tolist(), reverse=True)


def test_items_and_users(client, model):
    item = client.get("/items/i4").json()["item"]
    assert item["columns"] == {"author": "author1", "year": "1994", "shelf": "x"}
    assert item["users"] == model.data.users_per_item[4]
    answer = client.get("/users/u4").json()
    assert {one["id"] for one in answer["items"]} == {model.data.item_ids[i] for i in model.data.items_of(4)}
    assert answer["user"]["items"] == len(answer["items"])


def test_model_health_and_metrics(client, model):
    described = client.get("/model").json()
    assert (described["users"], described["items"], described["mainstream"]) == (12, 30, 0.4)
    assert described["columns"] == {"author": 3, "year": 5, "shelf": 1}
    assert client.get("/health/live?probe=1").json() == client.get("/health/ready").json() == {"status": "ok"}
    text = client.get("/metrics").text
    assert 'spherec_requests_total{route="model",status="200"}' in text
    assert f'spherec_model_info{{checksum="{model.artifact.checksum}"}} 1' in text


@pytest.mark.parametrize(
    ("status", "method", "path", "body", "part"),
    [
        (404, "GET", "/recommend/nobody", None, "user 'nobody'"),
        (404, "POST", "/recommend", {"items": ["x"]}, "item 'x'"),
        (404, "POST", "/similar", {"item": "i1", "only": ["x"]}, "item 'x'"),
        (422, "POST", "/similar", {"item": "i1", "filter": {"author": "author9"}}, "there are 'author0', 'author1'"),
        (422, "POST", "/similar", {"item": "i1", "filter": {"year": {"<": 1990}}}, "they go from 1990"),
        (422, "GET", "/recommend/u1?diversity=2", None, "diversity"),
        (422, "POST", "/similar", {"item": "i1", "filter": {"year": {"lt": 2000}}}, "filter.year must be a value, a"),
        (404, "GET", "/nothing", None, "'/nothing'"),
        (404, "GET", "/explain/u1/i%2F1", None, "'i/1'"),
        (405, "DELETE", "/model", None, "DELETE"),
        (422, "GET", "/recommend/u1?k=1001", None, "k + offset must be at most 1,000"),
        (422, "GET", "/recommend/u1?mainstraem=0.2", None, "'mainstraem' here; there is diversity, exclude_seen,"),
        (422, "GET", "/explain/x/u1/i1", None, "%2F"),
        (422, "GET", "/map/items?index=30", None, "30"),
        (422, "POST", "/recommend", {}, "needs users, items of a new user, or vectors"),
        (422, "POST", "/recommend", {"a\nb": 1}, r"a\nb: "),
        (422, "POST", "/recommend", {"a" * 100_000: 1}, "aaa…: "),
        (422, "POST", "/recommend", {"users": ["u1"] * 101}, "lists must be at most 100"),
        (422, "POST", "/recommend", {"users": ["u1"] * 90, "k": 900}, "must be at most 20,000"),
        (422, "POST", "/recommend", {"users": ["u1"], "filter": {"autor": 1}}, "'autor'"),
        (422, "POST", "/recommend", {"users": ["u1"], "explain": 21}, "less than or equal to 20, got 21"),
        (422, "POST", "/recommend", {"vectors": [[1.0]]}, "6 numbers"),
        (422, "POST", "/recommend", {"users": ["u1"], "mainstream": 1e9}, "mainstream must be a number"),
        (422, "POST", "/score", {"users": ["u1", "u2"], "items": ["i1", "i2", "i3"]}, "same length"),
    ],
)
def test_errors_are_one_sentence(client, status, method, path, body, part):
    answer = client.request(method, path, json=body, headers={"X-Request-Id": "abc-1"})
    assert answer.status_code == status
    assert part in answer.json()["error"]
    assert "\n" not in answer.json()["error"]
    assert answer.json()["request_id"] == answer.headers["x-request-id"] == "abc-1"


def test_the_description_of_the_api_needs_no_other_host(client):
    page = client.get("/docs").text
    assert "POST /recommend" in page
    assert "http:" not in page
    assert "<script" not in page
