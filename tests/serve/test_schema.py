"""Requests drawn from the OpenAPI schema, and from beside it: every answer has the form the schema promises, no 500."""

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
from tests.recommender.models import ITEMS, USERS

FORMS = {name: inspect.signature(one).return_annotation for name, one in vars(Answers).items() if hasattr(one, "route")}
ANSWERS = {name: form for name, form in FORMS.items() if form.__module__ == schema.__name__}
ANSWERS |= {"live": schema.Health, "ready": schema.Health}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KNOWN = {"users": USERS, "items": ITEMS, "only": ITEMS, "exclude": ITEMS}


@pytest.fixture(scope="module")
def described(client):
    return client.get("/openapi.json").json()


def test_answers_have_the_types_that_their_routes_state(described):
    operations = [one for path in described["paths"].values() for one in path.values() if one["operationId"] in ANSWERS]
    assert len(operations) == len(ANSWERS)
    for operation in operations:
        form = ANSWERS[operation["operationId"]].__name__
        answer = operation["responses"]["200"]["content"]["application/json"]["schema"]
        assert answer == {"$ref": f"#/components/schemas/{form}"}
        assert described["components"]["schemas"][form]["type"] == "object"


def values_of(field, described, name=""):
    """A strategy for the values of a field of the schema; known ids where it takes ids."""
    if "$ref" in field:
        field = described["components"]["schemas"][field["$ref"].rpartition("/")[2]]
    if "anyOf" in field:
        return st.one_of([values_of(one, described, name) for one in field["anyOf"]])
    if "enum" in field:
        return st.sampled_from(field["enum"])
    match field.get("type"):
        case "array":
            least = field.get("minItems", 0)
            lists = st.lists(values_of(field["items"], described), min_size=least, max_size=least + 3)
            if name == "vectors":
                return lists | st.lists(st.lists(st.floats(-1, 1), min_size=6, max_size=6), max_size=2)
            return lists | st.lists(st.sampled_from(KNOWN[name]), max_size=4) if name in KNOWN else lists
        case "object" if "properties" not in field:
            return st.dictionaries(st.sampled_from(["author", "year", "x", ""]), ANYTHING, max_size=2)
        case "object":
            parts = {key: values_of(one, described, key) for key, one in field["properties"].items()}
            required = {key: parts.pop(key) for key in field.get("required", ())}
            return st.fixed_dictionaries(required, optional=parts)
        case "integer":
            return st.integers(field.get("minimum", -5), 40) | st.integers()
        case "number":
            return st.floats(-2, 2) | st.floats(allow_nan=False, allow_infinity=False)
        case "boolean":
            return st.booleans()
        case "string":
            return st.text(max_size=field.get("maxLength", 12)) if name != "q" else st.sampled_from(["zoe", "u1", ""])
        case "null":
            return st.none()
    return ANYTHING


@st.composite
def requests(draw, described):
    """A method, a path, a query and a body; one in three has something that the schema does not allow."""
    path = draw(st.sampled_from(sorted(path for path in described["paths"] if path != "/metrics")))
    method = draw(st.sampled_from(sorted(described["paths"][path])))
    operation = described["paths"][path][method]
    is_odd = draw(st.integers(0, 2)) == 0
    query, where = {}, path
    for parameter in operation.get("parameters", ()):
        name = parameter["name"]
        if parameter["in"] == "path":
            ids = st.sampled_from(KNOWN[f"{name}s"])
            text = draw(ids | st.text(min_size=1, max_size=8) if is_odd else ids)
            where = where.replace(f"{{{name}}}", quote(text, safe="", errors="surrogatepass"))
        elif draw(st.booleans()):
            value = draw(ANYTHING if is_odd else values_of(parameter["schema"], described, name))
            if value is not None:
                query[name] = str(value).encode("utf-8", "replace").decode()
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    content = None
    if body is not None:
        content = draw(ANYTHING if is_odd and draw(st.booleans()) else values_of(body, described))
        if is_odd and isinstance(content, dict) and content:
            content[draw(st.sampled_from(sorted(content)))] = draw(ANYTHING)
    return operation["operationId"], (method, where), query, content


def check(client, request):
    name, where, query, body = request
    content = None if body is None else json.dumps(body)  # with Infinity, which Python writes and reads
    answer = client.request(*where, params=query, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 400, 401, 403, 404, 405, 413, 422, 503), (answer.status_code, answer.text)
    form = ANSWERS[name] if answer.status_code == 200 else schema.Problem
    content = TypeAdapter(form).validate_python(answer.json(), strict=True)
    assert set(content) == set(form.__annotations__)
    if answer.status_code != 200:
        assert not re.search("\n|Traceback", content["error"])
    return answer.status_code


@pytest.mark.parametrize("examples", [60, pytest.param(4000, marks=pytest.mark.slow)])
def test_no_request_makes_the_server_fail(client, described, examples):
    seen = set()

    @given(st.data())
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    def ask(data):
        seen.add(check(client, data.draw(requests(described))))

    ask()
    assert {200, 422} <= seen
