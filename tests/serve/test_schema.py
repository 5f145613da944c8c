"""Requests drawn from the OpenAPI schema, and from beside it: every answer has the form the schema promises, no 500."""

import inspect
import json
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="needs the extra serve")

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


def resolve(field, described):
    if "$ref" in field:
        return described["components"]["schemas"][field["$ref"].rpartition("/")[2]]
    return field


def values_of(field, described, name=""):
    """A strategy for the values of a field of the schema; known ids where it takes ids."""
    field = resolve(field, described)
    if "anyOf" in field:
        return st.one_of([values_of(one, described, name) for one in field["anyOf"]])
    if "enum" in field:
        return st.sampled_from(field["enum"])
    match field.get("type"):
        case "array":
            known = st.lists(st.sampled_from(KNOWN[name]), max_size=4) if name in KNOWN else st.nothing()
            size = st.lists(st.floats(-1, 1), min_size=6, max_size=6) if name == "vectors" else st.nothing()
            least = field.get("minItems", 0)
            lists = st.lists(values_of(field["items"], described), min_size=least, max_size=least + 3)
            return known | st.lists(size, max_size=2) | lists if name in ("vectors",) else known | lists
        case "object":
            required, properties = set(field.get("required", ())), field.get("properties")
            if properties is None:
                return st.dictionaries(st.sampled_from(["author", "year", "x", ""]), ANYTHING, max_size=2)
            parts = {key: values_of(one, described, key) for key, one in properties.items()}
            return st.fixed_dictionaries(
                {key: part for key, part in parts.items() if key in required},
                optional={key: part for key, part in parts.items() if key not in required},
            )
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
            ids = USERS if name == "user" else ITEMS
            text = draw(st.sampled_from(ids) | st.text(min_size=1, max_size=8) if is_odd else st.sampled_from(ids))
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
    return method.upper(), where, query, content


def check(client, described, request):
    method, path, query, body = request
    content = None if body is None else json.dumps(body)  # with Infinity, which Python writes and reads
    answer = client.request(method, path, params=query, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 400, 401, 403, 404, 405, 413, 422, 503), (answer.status_code, answer.text)
    content = answer.json()
    if answer.status_code != 200:
        problem = TypeAdapter(schema.Problem).validate_python(content, strict=True)
        assert "\n" not in problem["error"]
        assert "Traceback" not in problem["error"]
        return answer.status_code
    for place, operations in described["paths"].items():
        prefix = place.partition("{")[0]
        operation = operations.get(method.lower(), {}).get("operationId")
        if (path == place or ("{" in place and path.startswith(prefix))) and operation in ANSWERS:
            TypeAdapter(ANSWERS[operation]).validate_python(content, strict=True)
            assert set(content) == set(ANSWERS[operation].__annotations__)
    return 200


@pytest.mark.parametrize("examples", [60, pytest.param(4000, marks=pytest.mark.slow)])
def test_no_request_makes_the_server_fail(client, described, examples):
    seen = set()

    @given(st.data())
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    def ask(data):
        seen.add(check(client, described, data.draw(requests(described))))

    ask()
    assert {200, 422} <= seen
