"""The page: its files, the map behind it, and where a visitor begins."""

import asyncio
import re
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch

from spherec.errors import ArgumentError, DataError
from spherec.geometry import unit
from spherec.serve import ServeOptions, item_map
from spherec.serve.app import PAGE
from spherec.serve.item_map import MapKeeper, choose_samples, draw_file, draw_map
from spherec.serve.served_model import ServedModel
from spherec.training.config import PRESETS
from tests.recommender.models import model_of, small
from tests.serve.running import in_thread, wait_until

FILES = sorted(path for path in PAGE.iterdir() if path.is_file())


# --- files ---


class Tags(HTMLParser):
    """The tags of a page with their attributes; nothing may stand inside scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_data(self, data):
        assert not data.strip() or self.found[-1][0] not in ("script", "style")


def test_the_page_has_nothing_inline_and_all_files_that_it_names(client):
    answer = client.get("/")
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    page = Tags(answer.text)
    for tag, attributes in page.found:
        assert not [name for name in attributes if name == "style" or name.startswith("on")], tag
    named = [a.get("src") or a.get("href") for tag, a in page.found if tag in ("script", "link")]
    assert "page/app.js" in named
    for name in named:
        file = client.get(f"/{name}")
        assert (file.status_code, file.headers["cache-control"]) == (200, "no-cache"), name
        assert client.get(f"/{name}", headers={"if-none-match": file.headers["etag"]}).status_code == 304


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_files_name_no_other_host_and_modules_import_what_is_there(file):
    text = file.read_text()
    assert set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text)) <= {"http://www.w3.org"}
    for names, module in re.findall(r'import \{([^}]+)\} from "\./([\w.]+)"', text):
        for name in (part.strip() for part in names.split(",")):
            assert re.search(rf"export (async )?(function|class|const) {name}\b", (PAGE / module).read_text()), name


def test_the_wheel_has_the_files(tmp_path):
    wheels = pytest.importorskip("hatchling.builders.wheel", reason="needs hatchling")
    (wheel,) = wheels.WheelBuilder(str(Path(__file__).parents[2])).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        assert {f"spherec/serve/page/{file.name}" for file in FILES} <= set(archive.namelist())


# --- the map: where items lie ---


def planted(clusters=6, each=50, dim=16):
    """Vectors of items (I, D) in clusters, the clusters (I,) and popularities (I,)."""
    drawn = np.random.default_rng(0)
    cluster = drawn.permutation(np.repeat(np.arange(clusters), each))  # (I,)
    rows = drawn.standard_normal((clusters, dim))[cluster] + 0.3 * drawn.standard_normal((len(cluster), dim))
    return unit(torch.from_numpy(rows.astype(np.float32))), cluster, drawn.integers(1, 50, len(cluster))


@pytest.mark.parametrize("landmarks", [1000, 150, 60])
def test_planted_clusters_stay_together_in_one_picture(monkeypatch, landmarks):
    monkeypatch.setattr(item_map, "_LANDMARKS", landmarks)
    items, cluster, popularity = planted()
    places = draw_map(items, popularity)
    assert (places.shape, places.dtype) == ((300, 2), np.float32)
    away = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(away, np.inf)
    near = np.argsort(away, axis=1)[:, :10]
    assert (cluster[near] == cluster[:, None]).mean() > 0.8
    low, middle, high = np.percentile(places, [0, 50, 100], axis=0)
    assert ((high - middle) < 4 * (middle - low)).all(), "no far islands"
    assert (places == draw_map(items, popularity)).all(), "the same again"


def test_clumps_that_nothing_connects_lie_side_by_side():
    drawn = np.random.default_rng(0)
    far = np.array([[0, 0], [900, 0], [0, 700], [-4000, -4000]])
    places = (np.repeat(far, [300, 100, 60, 20], axis=0) + drawn.uniform(-1, 1, (480, 2))).astype(np.float32)
    packed = item_map._pack(places)
    assert np.ptp(packed, axis=0).max() < 12
    for part in np.split(np.arange(480), [300, 400, 460]):
        moved = packed[part] - places[part]
        assert np.allclose(moved, moved[0], atol=1e-3), "a clump is moved as a whole"
        others = np.delete(packed, part, axis=0)
        assert np.linalg.norm(packed[part][:, None] - others, axis=2).min() > 0.3, "none lies on another"


@pytest.mark.parametrize("rows", [torch.ones(1, 4), torch.eye(2), torch.ones(5, 1), torch.ones(120, 8)])
def test_few_items_and_equal_ones_have_places(rows):
    places = draw_map(rows, np.ones(len(rows), dtype=np.int64))
    assert places.shape == (len(rows), 2)
    assert np.isfinite(places).all()


# --- the map: what colours it and names its regions ---


def test_groups_of_items_by_a_column_and_by_the_words_of_names(client, model):
    for query, begins in (("?column=author", "author"), ("", "")):
        groups = dict(client.get(f"/map/groups{query}").json()["groups"])
        assert all(value.startswith(begins) for value in groups)
        assert groups[f"{begins or 'Zoë Author'}1"] == list(range(1, 25 if begins else 30, 3))
    assert groups["book"] == list(range(30)), "each item once"
    assert client.get("/map/groups?column=nope").status_code == 422


# --- the map: its file, and its route ---


@pytest.fixture
def file(tmp_path):
    model_of(small()).save(tmp_path / "m.spherec")
    return tmp_path / "m.spherec"


def find(file):
    async def wait():
        served, keeper = ServedModel.load(ServeOptions(file)), MapKeeper(file)
        while (places := keeper.find(served)) is None:
            await asyncio.sleep(0.01)
        return places

    return asyncio.run(wait())


def test_the_map_is_kept_next_to_the_model_and_drawn_once(file, monkeypatch):
    first, kept = find(file), file.with_name("m.spherec.map")
    written = kept.stat().st_mtime_ns
    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "create_subprocess_exec", lambda *_, **__: pytest.fail("it was drawn again"))
        assert (find(file) == first).all()
    draw_file(str(file), str(kept))  # as another process would that waited for this one
    assert kept.stat().st_mtime_ns == written
    model_of(small(), seed=5).save(file)
    assert (find(file) != first).any()


@pytest.mark.parametrize("harm", [lambda kept: kept.write_bytes(b"PK nonsense"), Path.mkdir], ids=["damage", "folder"])
def test_the_map_is_drawn_again(file, harm):
    harm(file.with_name("m.spherec.map"))  # where a folder is, no file can be written
    assert find(file).shape == (30, 2)


def test_a_map_that_cannot_be_drawn(file, monkeypatch, caplog):
    monkeypatch.setattr(item_map, "_DRAW", "raise ValueError('no ink')")
    with pytest.raises(DataError, match="log"):
        find(file)
    assert "no ink" in caplog.records[-1].fields["cause"]


def test_the_map_comes_as_places_and_numbers_of_users(client, model):
    answer = wait_until(lambda: (found := client.get("/map")).status_code == 200 and found)
    numbers = np.frombuffer(answer.content, dtype="<f4")
    assert len(numbers) == 3 * model.data.n_items
    assert np.isfinite(numbers).all()
    assert numbers[2 * model.data.n_items :].tolist() == model.data.users_per_item.tolist()
    again = client.get("/map", headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert "/map" not in client.get("/openapi.json").json()["paths"]


# --- items and samples ---


def test_items_by_index_and_by_id(client, model):
    answer = client.get("/map/items", params={"index": [2, 0], "id": ["i5", "unknown"]}).json()
    assert [item["id"] for item in answer["items"]] == [*(model.data.item_ids[index] for index in (2, 0)), "i5"]
    for item in answer["items"]:
        assert model.data.item_ids[item["index"]] == item["id"]
        assert item["users"] == model.data.users_per_item[item["index"]]
        assert item["name"].startswith("The book")


def test_samples_are_popular(client, model):
    start = client.get("/map/start").json()
    assert len({item["id"] for item in start["items"]}) == 6
    assert start["items"][0]["users"] == model.data.users_per_item.max()
    for item in start["items"]:
        assert [near["id"] for near in item["near"]] == [one.similar for one in model.similar_items(item["id"], k=3)]
    for user in start["users"]:
        assert user["items"] == len(model.data.items_of(int(model.data.user_ids.index_of([user["id"]])[0])))
        assert user["has"]


def test_samples_have_titles(file):
    names = {f"i{n}": f"title {n}" for n in range(0, 30, 3)}
    model_of(small(density=0.6).with_item_names(names)).save(file)
    start = choose_samples(ServedModel.load(ServeOptions(file)))
    assert all(item["name"] for item in start["items"])
    assert all(user["has"][0]["name"] for user in start["users"])


# --- pictures ---


def test_pictures_come_from_the_hosts_that_the_operator_names(file, tmp_path):
    table = tmp_path / "items.csv"
    table.write_text("id,cover\ni0,https://a.example/0.jpg\ni1,javascript:alert(1)\n")
    options = ServeOptions(file, items=table, pictures="cover=a.example,b.example:8443")
    with in_thread(options) as address:
        policy = httpx.get(address).headers["content-security-policy"]
        items = httpx.get(f"{address}/map/items", params={"id": ["i0", "i1", "i2"]}).json()["items"]
    assert "img-src 'self' data: blob: https://a.example https://b.example:8443;" in policy
    assert [item["picture"] for item in items] == ["https://a.example/0.jpg", "javascript:alert(1)", None]


@pytest.mark.parametrize(
    "given", ["cover", "cover=", "cover=*", "cover=a.example;script-src *", "cover=https://a.example"]
)
def test_anything_but_hosts_is_refused(file, given):
    with pytest.raises(ArgumentError, match="pictures"):
        ServeOptions(file, items=file, pictures=given)


def test_the_page_names_the_presets_with_a_dial():
    named = re.search(r"Models of the presets ([\w, -]+) have one", (PAGE / "dial.js").read_text())[1]
    assert all(PRESETS[name].training.reach for name in re.split(", | and ", named))


def test_samples_of_a_model_in_which_nobody_has_much(file):
    model_of(small(density=0.05, users=["a", "b"], items=["x", "y", "z"])).save(file)
    assert len(choose_samples(ServedModel.load(ServeOptions(file)))["items"]) <= 3
