"""`spherec recommend`, `similar`, `explain` and `info`, as a newcomer and as a script would call them."""

import json

import polars as pl
import pytest

from spherec.recommender import load
from tests.recommender.models import ITEMS, USERS, model_of, small

NAMES = {item: f"The {item}, or so" for item in ITEMS}
MODEL = model_of(small().with_item_names(NAMES))


@pytest.fixture
def path(tmp_path):
    MODEL.save(tmp_path / "m.spherec")
    return tmp_path / "m.spherec"


@pytest.fixture
def command(spherec, path):
    """Run a command on the model."""
    return lambda name, *arguments: spherec(name, path, *arguments)


def records(done):
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_a_script_gets_records(command):
    assert records(command("recommend", "u1", "-k", 3, "--json")) == MODEL.recommend("u1", 3).as_dicts()
    assert records(command("recommend", "u2", "u1", "--json")) == MODEL.recommend(["u2", "u1"]).as_dicts()
    assert records(command("similar", "i1", "--json")) == MODEL.similar_items("i1").as_dicts()
    assert records(command("similar", "u1", "--users", "--json")) == MODEL.similar_users("u1").as_dicts()
    assert records(command("explain", "u1", "i1", "--json")) == MODEL.explain("u1", "i1").as_dicts()


def test_a_table_shows_names_beside_ids(command):
    done = command("recommend", "u1", "u2", "-k", 2)
    assert done.code == 0
    for record in MODEL.recommend(["u1", "u2"], 2):
        assert f"For user {record.user}" in done.out
        assert str(record.item) in done.out
        assert record.name in done.out
        assert f"{record.score:.4f}" in done.out
    assert "Items similar to i1 (The i1, or so)" in command("similar", "i1").out
    assert "Items of user u1 that are nearest to i2 (The i2, or so)" in command("explain", "u1", "i2").out


def test_lists_from_files(command, tmp_path):
    (tmp_path / "users.txt").write_text("\ufeffu3\n\n u1 \n")  # with a byte order mark, as Windows writes
    (tmp_path / "items.txt").write_text("i5\ni6\ni7\ni8\n")
    told = records(command("recommend", f"@{tmp_path}/users.txt", "--only", f"@{tmp_path}/items.txt", "--json"))
    assert told == MODEL.recommend(["u3", "u1"], only=["i5", "i6", "i7", "i8"]).as_dicts()
    told = records(command("recommend", "u1", "--exclude", "i5, i6", "--with-seen", "-k", 40, "--json"))
    assert told == MODEL.recommend("u1", 40, exclude=["i5", "i6"], exclude_seen=False).as_dicts()


def test_somebody_new(command):
    told = records(command("recommend", "--items", "i1,i2,i3", "-k", 4, "--only", "i1,i4,i5,i6,i7", "--json"))
    assert told == MODEL.recommend_for(["i1", "i2", "i3"], 4, only=["i1", "i4", "i5", "i6", "i7"]).as_dicts()
    assert "For a user with these items" in command("recommend", "--items", "i1,i2").out


def test_unknown_ids_are_passed_over_on_request(command):
    mixed = command("recommend", "zoe", "u1", "--unknown", "popular", "--diversity", 0.5, "--json")
    assert records(mixed) == MODEL.recommend(["zoe", "u1"], unknown="popular", diversity=0.5).as_dicts()
    assert "does not know them: 'zoe'" in mixed.err
    near = command("similar", "i1", "--only", "i2,i3,new", "--exclude", "i3", "--diversity", 1, "--json")
    assert [one["similar"] for one in records(near)] == ["i2"]
    assert "only: 1 of 3 ids are not in the model" in near.err
    told = records(command("recommend", "zoe", "u1", "--only", "i1,x,i2,i3", "--unknown", "skip", "--json"))
    assert told == MODEL.recommend("u1", only=["i1", "i2", "i3"]).as_dicts()


def test_everybody_as_parquet(command, tmp_path):
    done = command("recommend", "--all", "-k", 5, "-o", tmp_path / "lists.parquet")
    assert done.code == 0, done.err
    assert "60 rows written to" in done.err
    assert pl.read_parquet(tmp_path / "lists.parquet").equals(MODEL.recommend(USERS, 5).to_polars())
    assert sorted(file.name for file in tmp_path.iterdir()) == ["lists.parquet", "m.spherec"]


@pytest.fixture
def parts(spherec, path):
    """Indexes of the three parts of the items, named as they are looked for next to the model."""
    pytest.importorskip("usearch")
    files = [path.with_name(f"m.{j}-of-3.usearch") for j in range(3)]
    for j, file in enumerate(files):
        done = spherec("export", path, "--part", f"{j}/3", "-o", file)
        assert done.code == 0, done.err
        assert "repeated for the indexes of all parts" in done.err
    return files


def test_indexes_of_all_parts_give_the_same_answers(command, path, parts):
    repeated = [word for file in parts for word in ("--index", file)]
    for arguments in (("recommend", "u1", "u2"), ("recommend", "--items", "i1,i2"), ("similar", "i1", "i2")):
        exact = records(command(*arguments, "--json"))
        assert records(command(*arguments, *repeated, "--json")) == exact
        assert records(command(*arguments, "--index", path.with_name("m.*-of-3.usearch"), "--json")) == exact
    model = load(path, index=True, device="cpu")
    assert len(model.ranker.rankers) == 3
    assert model.recommend(["u1"], 5) == MODEL.recommend(["u1"], 5)


def test_info(command, path):
    told = records(command("info", "--json"))
    assert told["users"] == 12
    assert told["items"] == told["items_with_a_name"] == 30
    assert told["pairs"] == len(MODEL.data)
    assert told["bytes"] == path.stat().st_size
    assert told["config"] == MODEL.config.to_dict()
    assert told["best_epoch"] is None
    shown = command("info").out
    assert told["checksum"] in shown
    assert MODEL.config.to_toml() in shown


def test_info_counts_the_bytes_of_shards(command, path, tmp_path):
    whole = path.stat().st_size
    MODEL.save(path, shards=3)
    told = records(command("info", "--json"))
    assert told["shards"] == 3
    assert told["bytes"] == sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")) > whole


BAD = {
    "nobody": (("recommend",), ["say for whom", "--all", "--items"]),
    "an unknown user": (("recommend", "zoe", "max"), ["'zoe', 'max' are not among", "--items", "--unknown"]),
    "an unknown item": (("recommend", "u1", "--only", "x"), ["'x' is not among", "in only"]),
    "no length": (("recommend", "u1", "-k", 0), ["k must be a whole number >= 1, got 0"]),
    "everybody to nowhere": (("recommend", "--all"), ["--all needs -o"]),
    "somebody new to a file": (("recommend", "--items", "i1", "-o", "x.csv"), ["leave out -o"]),
    "no such file": (("recommend", "@none.txt"), ["cannot read none.txt"]),
    "a dial that does nothing": (("recommend", "u1", "--mainstream", 0.5), ["no effect", "has no reach", "leave it"]),
}


@pytest.mark.parametrize(("arguments", "told"), BAD.values(), ids=BAD)
def test_bad_input_is_one_sentence(command, arguments, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = command(*arguments)
    assert done.code == 2
    assert done.out == ""
    assert len(done.err.strip().splitlines()) == 1
    for part in told:
        assert part in done.err
    assert [file.name for file in tmp_path.iterdir()] == ["m.spherec"]


@pytest.mark.parametrize("command", [("recommend", "u1"), ("info",)])
def test_what_is_no_model(spherec, tmp_path, command):
    (tmp_path / "x.csv").write_text("user,item\nu1,i1\n")
    small().save(tmp_path / "x.npz")
    (tmp_path / "cut.spherec").write_bytes(b"")
    name, *rest = command
    for file, told in (
        ("x.csv", "another kind of file"),
        ("x.npz", "not 'spherec-model'"),
        ("no.spherec", "No such file"),
    ):
        done = spherec(name, tmp_path / file, *rest)
        assert done.code == 2
        assert told in done.err
    assert spherec(name, tmp_path / "cut.spherec", *rest).code == 2
