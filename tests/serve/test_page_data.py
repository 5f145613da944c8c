"""The page: its files, the map behind it, and where a visitor begins."""

import re
import tarfile
import time
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from spherec.item_map import ItemMap
from tests.recommender.models import model_of, small

pytest.importorskip("fastapi", reason="needs the extra serve")
import httpx

from spherec.serve import ServeOptions
from spherec.serve.app import PAGE
from spherec.serve.page_data import MapKeeper, choose_samples, describe_places
from spherec.serve.served_model import ServedModel
from tests.serve.running import in_thread

FILES = sorted(path for path in PAGE.iterdir() if path.is_file())


def wait_for_map(client):
    """The answer with the map, once it is drawn."""
    for _ in range(600):
        answer = client.get("/map")
        if answer.status_code != 202:
            return answer
        assert 0 <= answer.json()["progress"] <= 1
        time.sleep(0.02)
    raise AssertionError("the map was not drawn")


def served_from(path):
    return ServedModel.load(ServeOptions(path))


def wait_for(keeper, served):
    for _ in range(600):
        found = keeper.find(served)
        if isinstance(found, ItemMap):
            return found
        time.sleep(0.02)
    raise AssertionError("the map was not drawn")


# --- files ---


class Tags(HTMLParser):
    """The tags of a page with their attributes, and the text inside scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.found, self.inline, self.inside = [], "", ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        self.inside = tag

    def handle_data(self, data):
        if self.inside in ("script", "style"):
            self.inline += data.strip()


def test_the_page_has_nothing_inline_and_all_files_that_it_names(client):
    answer = client.get("/")
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    page = Tags(answer.text)
    assert not page.inline
    for tag, attributes in page.found:
        assert "style" not in attributes, tag
        assert not [name for name in attributes if name.startswith("on")], tag
    named = [a.get("src") or a.get("href") for tag, a in page.found if tag in ("script", "link")]
    assert "page/app.js" in named
    for name in named:
        file = client.get(f"/{name}")
        assert file.status_code == 200, name
        assert file.headers["cache-control"] == "no-cache"
        assert client.get(f"/{name}", headers={"if-none-match": file.headers["etag"]}).status_code == 304


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_files_name_no_other_host(file):
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+", file.read_text()))
    assert addresses <= {"http://www.w3.org"}


@pytest.mark.parametrize("file", [path for path in FILES if path.suffix == ".js"], ids=lambda path: path.name)
def test_modules_import_what_is_there(file, client):
    for name in re.findall(r'from "\./([\w.]+)"', file.read_text()):
        answer = client.get(f"/page/{name}")
        assert answer.status_code == 200
        assert "javascript" in answer.headers["content-type"]
    imported = re.findall(r'import \{([^}]+)\} from "\./([\w.]+)"', file.read_text())
    for names, module in imported:
        for name in (part.strip() for part in names.split(",")):
            assert re.search(rf"export (async )?(function|class|const) {name}\b", (PAGE / module).read_text()), name


def test_the_wheel_and_the_source_archive_have_the_files(tmp_path):
    wheels = pytest.importorskip("hatchling.builders.wheel", reason="needs hatchling")
    sources = pytest.importorskip("hatchling.builders.sdist", reason="needs hatchling")
    root = str(Path(__file__).parents[2])
    (wheel,) = wheels.WheelBuilder(root).build(directory=str(tmp_path), versions=["standard"])
    (source,) = sources.SdistBuilder(root).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        assert {f"spherec/serve/page/{file.name}" for file in FILES} <= set(archive.namelist())
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        assert {f"src/spherec/serve/page/{file.name}" for file in FILES} <= names


# --- the map ---


def test_the_map_comes_as_places_and_numbers_of_users(client, model):
    answer = wait_for_map(client)
    numbers = np.frombuffer(answer.content, dtype="<f4")
    assert len(numbers) == 3 * model.data.n_items
    assert np.isfinite(numbers).all()
    assert numbers[2 * model.data.n_items :].tolist() == model.data.users_per_item.tolist()
    again = client.get("/map", headers={"if-none-match": answer.headers["etag"]})
    assert again.status_code == 304
    assert not again.content


def test_the_map_is_kept_next_to_the_model_and_drawn_once(tmp_path, monkeypatch):
    file = tmp_path / "m.spherec"
    model_of(small()).save(file)
    served = served_from(file)
    first = wait_for(MapKeeper(file), served)
    assert ItemMap.load(tmp_path / "m.spherec.map").model == served.checksum
    monkeypatch.setattr(ItemMap, "draw", lambda *_, **__: pytest.fail("it was drawn again"))
    assert (wait_for(MapKeeper(file), served).places == first.places).all()


def test_another_model_has_another_map(tmp_path):
    file = tmp_path / "m.spherec"
    keeper = MapKeeper(file)
    maps = []
    for seed in (1, 5):
        model_of(small(), seed=seed).save(file)
        served = served_from(file)
        maps.append(wait_for(keeper, served))
        assert maps[-1].model == served.checksum
    assert not np.allclose(maps[0].places, maps[1].places)


def test_a_map_that_cannot_be_kept_is_shown_all_the_same(tmp_path, monkeypatch):
    file = tmp_path / "m.spherec"
    model_of(small()).save(file)
    served = served_from(file)
    (tmp_path / "m.spherec.map").mkdir()
    assert len(wait_for(MapKeeper(file), served).places) == 30


def test_processes_do_not_draw_the_same_map_twice(tmp_path, monkeypatch):
    file = tmp_path / "m.spherec"
    model_of(small()).save(file)
    served = served_from(file)
    real, drawn = ItemMap.draw, []

    def slowly(*arguments, **options):
        drawn.append(1)
        time.sleep(0.2)
        return real(*arguments, **options)

    monkeypatch.setattr(ItemMap, "draw", slowly)
    keepers = [MapKeeper(file), MapKeeper(file)]
    for keeper in keepers:
        keeper.find(served)
    assert (wait_for(keepers[0], served).places == wait_for(keepers[1], served).places).all()
    assert len(drawn) == 1


def test_the_map_needs_the_key_and_the_page_does_not(model_file, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("0123456789abcdef\n")
    options = ServeOptions(model_file, api_key_file=keys, log_requests=False)
    with in_thread(options) as address, httpx.Client(base_url=address) as client:
        assert client.get("/").status_code == 200
        assert client.get("/page/app.js").status_code == 200
        for path in ("/map", "/map/start", "/map/items?index=0"):
            assert client.get(path).status_code == 401
            assert client.get(path, headers={"x-api-key": "0123456789abcdef"}).status_code in (200, 202)


# --- items and samples ---


def test_items_by_index_and_by_id(client, model):
    answer = client.get("/map/items", params={"index": [2, 0], "id": ["i5", "unknown"]}).json()
    ids = [model.data.item_ids[index] for index in (2, 0)] + ["i5"]
    assert [item["id"] for item in answer["items"]] == ids
    for item in answer["items"]:
        assert model.data.item_ids[item["index"]] == item["id"]
        assert item["users"] == model.data.users_per_item[item["index"]]
        assert item["name"].startswith("The book")


@pytest.mark.parametrize("query", ["index=30", "index=-1", "index=x", "&".join(f"index={n % 30}" for n in range(1001))])
def test_items_that_cannot_be_asked_for(client, query):
    answer = client.get(f"/map/items?{query}")
    assert answer.status_code == 422
    assert answer.json()["error"]


def test_samples_are_popular_and_far_apart(client, model):
    start = client.get("/map/start").json()
    assert start["model"] == model.artifact.checksum
    assert len(start["items"]) == 6
    assert len({item["id"] for item in start["items"]}) == 6
    assert start["items"][0]["users"] == model.data.users_per_item.max()
    for item in start["items"]:
        assert [near["id"] for near in item["near"]] == [one.similar for one in model.similar_items(item["id"], k=3)]
    for user in start["users"]:
        assert user["items"] == len(model.data.items_of(int(model.data.user_ids.index_of([user["id"]])[0])))
        assert user["has"]
    rows = model.vectors.item_table[[item["index"] for item in start["items"]]]
    first, second = rows[0], rows[1]
    assert ((rows[0] - model.vectors.item_table) ** 2).sum(1).max() == pytest.approx(((first - second) ** 2).sum())


def test_samples_of_a_model_in_which_nobody_has_much(tmp_path):
    file = tmp_path / "m.spherec"
    model_of(small(density=0.05, users=["a", "b"], items=["x", "y", "z"])).save(file)
    samples = choose_samples(served_from(file))
    assert len(samples["items"]) <= 3
    assert describe_places(served_from(file), [], []) == []
