"""A small model, served. Tests are left out where a package of the extra serve is missing, or httpx."""

from importlib.util import find_spec

import pytest

from tests.recommender.models import ITEMS, model_of, small

collect_ignore_glob = [] if all(map(find_spec, ("fastapi", "httpx", "uvicorn"))) else ["test_*.py"]
NAMES = {item: f"The book {item} — Zoë Author{n % 3}" for n, item in enumerate(ITEMS)}


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    """The file of a model with reach and names, and a table of its items next to it."""
    folder = tmp_path_factory.mktemp("served")
    model_of(small().with_item_names(NAMES), mainstream=0.4).save(folder / "model.spherec")
    rows = [f"{item},author{n % 3},{1990 + n % 5},x" for n, item in enumerate(ITEMS[:25])]
    (folder / "items.csv").write_text("\n".join(["id,author,year,shelf", *rows]) + "\n")
    return folder / "model.spherec"


@pytest.fixture(scope="module")
def model(model_file):
    """The model in the file."""
    from spherec.recommender import load

    return load(model_file)


@pytest.fixture(scope="module")
def client(model_file):
    """A client of an app that serves it."""
    import httpx

    from spherec.serve import ServeOptions
    from tests.serve.running import in_thread

    options = ServeOptions(model_file, items=model_file.with_name("items.csv"), log_requests=False)
    with in_thread(options) as address, httpx.Client(base_url=address) as client:
        yield client
