"""A client that `openapi-python-client` generates from openapi.json calls every route, and knows every answer."""

import subprocess
import sys
from importlib import import_module

import httpx
import pytest

from spherec.serve import ServeOptions
from tests.recommender.test_new_items import fitted
from tests.serve.running import in_thread
from tests.serve.test_schema import ANSWERS

pytest.importorskip("openapi_python_client", reason="pip install openapi-python-client")
LISTS = {"user": "r1", "item": "b1"}
BODIES = {
    "recommend": {"users": ["r1"], "items": ["b1"], "explain": 2, "filter": {}},
    "similar_filtered": {"item": "b1", "only": ["b2", "b3"]},
    "score": {"users": ["r1"], "items": ["b1", "b2"]},
    "add_events": {"events": [{"user": "r1", "item": "b2", "kind": "buy"}]},
    "add_items": {"items": [{"id": "new", "features": {"genre": "crime"}}]},
}


@pytest.mark.slow
def test_a_generated_client_calls_every_route(tmp_path, monkeypatch):
    fitted(epochs=2).save(tmp_path / "model.spherec")
    options = ServeOptions(tmp_path / "model.spherec", writable=True, events=str(tmp_path / "e.db"), log_requests=False)
    with in_thread(options) as address:
        paths = httpx.get(f"{address}/openapi.json").json()["paths"]
        command = (sys.executable, "-m", "openapi_python_client", "generate", "--url", f"{address}/openapi.json")
        subprocess.run([*command, "--meta", "none", "--output-path", tmp_path / "generated"], check=True)
        monkeypatch.syspath_prepend(tmp_path)
        with import_module("generated").Client(base_url=address) as client:
            for path, operations in paths.items():
                for name in (one["operationId"] for one in operations.values()):
                    call = import_module(f"generated.api.default.{name}").sync_detailed
                    given = {one: value for one, value in LISTS.items() if f"{{{one}}}" in path}
                    if name in BODIES:
                        form = getattr(import_module("generated.models"), call.__annotations__["body"].__name__)
                        given["body"] = form.from_dict(BODIES[name])
                    answer = call(client=client, **given)
                    assert answer.status_code == 200, (name, answer.content)
                    assert name == "metrics" or type(answer.parsed).__name__ == ANSWERS[name].__name__
