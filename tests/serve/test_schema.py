"""Requests near those that the schema describes: every answer has the form that the schema promises, none is a 500."""

import inspect
import json
import re
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from spherec.serve import schema
from spherec.serve.answers import Answers
from tests.recommender.models import ITEMS

FORMS = {name: inspect.signature(one).return_annotation for name, one in vars(Answers).items() if hasattr(one, "route")}
ANSWERS = {name: form for name, form in FORMS.items() if form.__module__ == schema.__name__}
ANSWERS |= {"live": schema.Health, "ready": schema.Health}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.sampled_from(["i1", -1, 3, 0.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
PLACES = {"user": "u1", "item": "i2"}
NEAR = {"k": 3, "offset": 2, "diversity": 0.2}
LISTS = NEAR | {"mainstream": 0.3, "explain": 2, "exclude_seen": False, "unknown": "popular"}
FILTERS = {"only": ITEMS, "exclude": ["i4"], "filter": {"author": ["author1", "author2"], "year": {"<": 1994}}}
BODIES = {
    "recommend": LISTS | FILTERS | {"users": ["u1"], "items": ["i1"], "vectors": [[0.1] * 6]},
    "similar_filtered": NEAR | FILTERS | {"item": "i2"},
    "score": {"users": ["u1", "u2"], "items": ["i3"], "mainstream": 0.2},
    "add_events": {"events": [{"user": "u1", "item": "i2", "kind": "buy", "time": 1e9}]},
    "add_items": {"items": [{"id": "new", "name": "New", "features": {"genre": "crime"}}]},
}
QUERIES = {"recommend_user": LISTS, "similar": NEAR, "explain": {"k": 3}, "user": {"k": 3, "offset": 1}}
QUERIES |= {"search": {"q": "zoe", "k": 3, "kind": "items"}}


@pytest.fixture(scope="module")
def operations(client):
    """The operations of the API by name, each with its method and path."""
    paths = client.get("/openapi.json").json()["paths"]
    found = {one["operationId"]: ((method, path), one) for path in paths for method, one in paths[path].items()}
    return {name: found[name] for name in ANSWERS}


def test_answers_and_questions_have_the_types_that_their_routes_state(client, operations):
    forms = client.get("/openapi.json").json()["components"]["schemas"]
    for name, (_, operation) in operations.items():
        answer = operation["responses"]["200"]["content"]["application/json"]["schema"]
        assert answer == {"$ref": f"#/components/schemas/{ANSWERS[name].__name__}"}
        assert forms[ANSWERS[name].__name__]["type"] == "object"
        asked = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"}
        if "requestBody" in operation:
            form = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            asked = set(forms[form]["properties"])
        assert asked == set({**BODIES, **QUERIES}.get(name, {})), f"all that {name} takes is asked for below"


@st.composite
def requests(draw, operations):
    """A request with some of what its operation takes; one in three has something that the schema does not allow."""
    name, ((method, path), _) = draw(st.sampled_from(sorted(operations.items(), key=lambda one: one[0])))
    asked = {**BODIES, **QUERIES}.get(name, {})
    asked = {one: asked[one] for one in sorted(draw(st.sets(st.sampled_from(sorted(asked)))) if asked else ())}
    places = dict(PLACES)
    if draw(st.integers(0, 2)) == 0:
        places[draw(st.sampled_from(sorted(places)))] = draw(st.text(min_size=1, max_size=8))
        asked[draw(st.sampled_from([*asked, "k", "x"]))] = draw(ANYTHING)
    places = {one: quote(text, safe="", errors="surrogatepass") for one, text in places.items()}
    return name, (method, path.format(**places)), asked


def check(client, request):
    name, where, asked = request
    query = {one: str(value).encode("utf-8", "replace") for one, value in asked.items() if value is not None}
    content = json.dumps(asked) if name in BODIES else None  # with Infinity, which Python writes and reads
    mark = {"Content-Type": "application/json"}
    answer = client.request(*where, params={} if content else query, content=content, headers=mark)
    assert answer.status_code in (200, 400, 403, 404, 405, 422), (answer.status_code, answer.text)
    form = ANSWERS[name] if answer.status_code == 200 else schema.Problem
    content = TypeAdapter(form).validate_python(answer.json(), strict=True)
    assert set(content) == set(form.__annotations__)
    if answer.status_code != 200:
        assert not re.search("\n|Traceback", content["error"])
    return answer.status_code


@pytest.mark.parametrize("examples", [60, pytest.param(4000, marks=pytest.mark.slow)])
def test_no_request_makes_the_server_fail(client, operations, examples):
    seen = set()

    @given(requests(operations))
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    def ask(request):
        seen.add(check(client, request))

    ask()
    assert {200, 422} <= seen
