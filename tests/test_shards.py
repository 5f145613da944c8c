"""Models in shards: written and loaded whole and in part, and what is wrong with a shard is one sentence."""

import errno
import itertools
import os
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import spherec
from spherec.data.container import read_container, write_container
from spherec.distributed.shards import save_shards
from spherec.errors import ArgumentError, DataError, FailedProcessError, UnknownIdError
from spherec.recommender import merge_lists
from tests.recommender.models import ITEMS, USERS, model_of, small
from tests.training.runs import Alike

NAMES = {item: f"The {item}" for item in ITEMS[::2]}


def shards_of(path):
    return sorted(file.name for file in path.parent.iterdir() if "-of-" in file.name)


@pytest.fixture
def model():
    return model_of(small().with_item_names(NAMES), mainstream=0.6)


def same(one, other):
    """All that a model file holds, but for its checksum."""
    tables = [(part.vectors.user_table, part.vectors.item_table, part.vectors.item_reach) for part in (one, other)]
    return (
        all(torch.equal(mine, theirs) for mine, theirs in zip(*tables, strict=True))
        and one.data == other.data
        and one.data.item_names == other.data.item_names
        and (one.config, one.history, one.ended) == (other.config, other.history, other.ended)
    )


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("shards", [1, 2, 3, 7, 40])
def test_a_model_in_shards_is_the_same_model(model, tmp_path, shards, mmap):
    """Also with more shards than users, or than items."""
    path = tmp_path / "m.spherec"
    model.save(path, shards=shards)
    assert len(shards_of(path)) == shards
    loaded = spherec.load(path, mmap=mmap)
    assert same(loaded.artifact, model.artifact)
    assert loaded.recommend(USERS, 5) == model.recommend(USERS, 5)
    assert loaded.recommend_for(ITEMS[:2]) == model.recommend_for(ITEMS[:2])
    loaded.save(tmp_path / "again.spherec")
    model.save(tmp_path / "whole.spherec")
    assert (tmp_path / "again.spherec").read_bytes() == (tmp_path / "whole.spherec").read_bytes()


def test_shards_are_as_private_as_their_model_and_follow_no_planted_link(model, tmp_path):
    path, precious = tmp_path / "m.spherec", tmp_path / "precious"
    model.save(path, shards=2)
    precious.write_text("mine")
    path.chmod(0o600)
    for shard in map(path.with_name, shards_of(path)):
        shard.unlink()
        shard.symlink_to(precious)
    model.save(path, shards=2)
    assert precious.read_text() == "mine"
    assert {path.with_name(shard).lstat().st_mode & 0o777 for shard in shards_of(path)} == {0o600}
    assert same(spherec.load(path).artifact, model.artifact)
    with pytest.raises(DataError, match="name too long"):
        model.save(tmp_path / ("x" * 230), shards=2)


def test_features_are_in_shards_too(tmp_path):
    data = small()
    features = np.random.default_rng(1).random((len(ITEMS), 4)).astype(np.float32)
    model = spherec.CML(dim=4, epochs=1).fit(data, item_features=features)
    model.save(tmp_path / "m.spherec", shards=3)
    loaded = spherec.load(tmp_path / "m.spherec").artifact
    assert np.array_equal(loaded.features.matrix, model.artifact.features.matrix)
    assert torch.equal(loaded.feature_map.lengths, model.artifact.feature_map.lengths)
    assert torch.equal(loaded.feature_map.weights, model.artifact.feature_map.weights)


@pytest.mark.parametrize("shards", [None, 1, 3, 4, 6])
@pytest.mark.parametrize("parts", [1, 2, 3, 4, 5])
def test_parts_have_the_rows_and_pairs_of_the_whole(model, tmp_path, shards, parts):
    """Whatever the number of shards, and also of a file without."""
    path = tmp_path / "m.spherec"
    model.save(path, shards=shards)
    data, vectors = model.data, model.vectors
    seen = set()
    for j, k in itertools.product(range(parts), range(2)):
        part = spherec.load(path, users=(j, parts), items=(k, 2), mmap=True)
        users = [n for n in range(data.n_users) if (data.n_items + n) % parts == j]
        items = list(range(k, data.n_items, 2))
        assert list(part.data.user_ids) == [USERS[n] for n in users]
        assert list(part.data.item_ids) == [ITEMS[n] for n in items]
        assert list(part.data.item_names) == [NAMES.get(ITEMS[n]) for n in items]
        assert torch.equal(part.vectors.user_table, vectors.user_table[users])
        assert torch.equal(part.vectors.item_table, vectors.item_table[items])
        assert torch.equal(part.vectors.item_reach, vectors.item_reach[items])
        for n, user in enumerate(users):
            own = {ITEMS[items[item]] for item in part.data.items_of(n)}
            assert own == {ITEMS[item] for item in data.items_of(user) if item in items}
        seen |= {(user, item) for user in part.data.user_ids for item in part.data.item_ids}
    assert len(seen) == data.n_users * data.n_items


def test_merged_lists_of_parts_are_those_of_the_whole(model, tmp_path):
    model.save(tmp_path / "m.spherec", shards=4)
    parts = [spherec.load(tmp_path / "m.spherec", items=(j, 4)) for j in range(4)]
    asked = [*USERS[3:], *USERS[:3]]
    for k in (1, 5, 100):
        lists = merge_lists([part.recommend(asked, k, mainstream=0.2) for part in parts], k)
        assert lists == model.recommend(asked, k, mainstream=0.2)
    assert len(merge_lists([], 5)) == 0


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_part_reads_no_more_than_its_shards(model, tmp_path, missing):
    model.save(tmp_path / "m.spherec", shards=3)
    (tmp_path / shards_of(tmp_path / "m.spherec")[missing]).unlink()
    for j in {0, 1, 2} - {missing}:
        spherec.load(tmp_path / "m.spherec", users=(j, 3), items=(j, 3))
    with pytest.raises(DataError, match="is not next to it"):
        spherec.load(tmp_path / "m.spherec", users=(0, 3))


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
def test_rows_that_are_one_shard_are_mapped(model, tmp_path):
    model.save(tmp_path / "m.spherec", shards=2)
    part = spherec.load(tmp_path / "m.spherec", users=(1, 2), items=(1, 2), mmap=True)
    places = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if "1-of-2" in line]
    ranges = [[int(end, 16) for end in words[0].split("-")] for words in places]
    for table in (part.vectors.user_table, part.vectors.item_table, part.vectors.item_reach):
        assert any(begin <= table.data_ptr() < end for begin, end in ranges)


def test_what_takes_the_whole_model_is_refused_of_a_part(model, tmp_path):
    model.save(tmp_path / "m.spherec")
    part = spherec.load(tmp_path / "m.spherec", items=(1, 2))
    for action, word in (
        (lambda: part.save(tmp_path / "x.spherec"), "be saved"),
        (lambda: part.recommend_for(list(part.data.item_ids)[:2]), "place new users"),
        (lambda: part.partial_fit(model.data), "be trained"),
        (lambda: part.add_items(np.ones((1, 2)), item_ids=["new"]), "take new items"),
    ):
        with pytest.raises(ArgumentError, match=f"a part of a model cannot {word}; load the whole model"):
            action()


def test_an_id_that_a_part_does_not_have_may_be_in_another(model, tmp_path):
    model.save(tmp_path / "m.spherec")
    part = spherec.load(tmp_path / "m.spherec", users=(1, 2))
    with pytest.raises(UnknownIdError, match="another part of the model may have it") as raised:
        part.recommend("nobody")
    assert "recommend_for" not in str(raised.value)


class Failing(Alike):
    """A group whose other process has a problem."""

    def agree(self, *flags):
        return [True for _ in flags]


@pytest.mark.parametrize("error", [OSError("gone"), MemoryError(), RuntimeError("a fault")], ids=repr)
def test_processes_agree_that_the_first_cannot_read_ids(model, tmp_path, error):
    def fail():
        raise error

    with pytest.raises(type(error)):
        save_shards(tmp_path / "m.spherec", Alike(0, 2), lambda: model.artifact, fail)
    with pytest.raises(FailedProcessError, match="another process"):
        save_shards(tmp_path / "m.spherec", Failing(1, 2), lambda: model.artifact, fail)


@pytest.mark.parametrize("portion", [(2, 2), (-1, 2), (0, 0), (0,), [0, 2], (0.0, 2), 3, None, (True, 2)], ids=range(9))
def test_portions_are_checked(model, tmp_path, portion):
    model.save(tmp_path / "m.spherec")
    for name in ("users", "items"):
        with pytest.raises(ArgumentError, match=f"{name} must be"):
            spherec.load(tmp_path / "m.spherec", **{name: portion})


@pytest.mark.parametrize("shards", [0, -1, 1.5, True, "2", 5000])
def test_the_number_of_shards_is_checked(model, tmp_path, shards):
    with pytest.raises(ArgumentError, match="shards must be a whole number from 1 to 4,096"):
        model.save(tmp_path / "m.spherec", shards=shards)
    assert not list(tmp_path.iterdir())


def test_a_new_model_replaces_the_shards_of_the_one_before(model, tmp_path):
    path = tmp_path / "m.spherec"
    (tmp_path / "m.spherec.checkpoint.0-of-2.592c3c57").write_text("of a run")
    model.save(path, shards=3)
    first = shards_of(path)
    model_of(small(), seed=5).save(path, shards=2)
    assert set(first) & set(shards_of(path)) == {"m.spherec.checkpoint.0-of-2.592c3c57"}
    assert len(shards_of(path)) == 3, "two, and the checkpoint"
    model.save(path)
    assert shards_of(path) == ["m.spherec.checkpoint.0-of-2.592c3c57"]
    assert same(spherec.load(path).artifact, model.artifact)


def fill_the_disk():
    raise OSError(errno.ENOSPC, "full")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("fault", [partial(os._exit, 9), fill_the_disk], ids=["killed", "full"])
def test_a_fault_at_any_call_leaves_the_model_before_or_the_new_one(model, tmp_path, fault):
    path, other, last, code = tmp_path / "m.spherec", model_of(small(), seed=5, mainstream=0.6), 0, 0
    while code != 5:
        model.save(path, shards=3)
        last, calls = last + 1, itertools.count(1)

        def failing(call, *given, calls=calls, last=last, **options):
            return fault() if next(calls) == last else call(*given, **options)

        if not (child := os.fork()):
            for owner, name in ((os, "open"), (os, "fsync"), (os, "replace"), (os, "unlink")):
                setattr(owner, name, partial(failing, getattr(owner, name)))
            with suppress(DataError):
                other.save(path, shards=2)
            os._exit(5 if next(calls) <= last else 0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, 5, 9)
        assert any(same(spherec.load(path).artifact, one.artifact) for one in (model, other)), last
    assert last > 20
    assert [len(shards_of(path)), len(list(tmp_path.iterdir()))] == [2, 3], "nothing is left behind"


def test_a_missing_damaged_or_foreign_shard_is_one_sentence(model, tmp_path):
    path = tmp_path / "m.spherec"
    model.save(path, shards=3)
    shard = tmp_path / shards_of(path)[1]
    content = shard.read_bytes()
    shard.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(DataError, match=r"is damaged.*its checksum is wrong; copy it again"):
        spherec.load(path)
    other = model_of(small(), seed=5, mainstream=0.6)
    other.save(tmp_path / "o.spherec", shards=3)
    foreign = next(tmp_path.glob("o.spherec.1-of-3.*"))
    shard.write_bytes(foreign.read_bytes())
    with pytest.raises(DataError, match=r"is no part of .*m\.spherec"):
        spherec.load(path)
    shard.unlink()
    with pytest.raises(DataError, match=r"m\.spherec is in 3 parts, and 'm\.spherec\.1-of-3\..* is not next to it"):
        spherec.load(path)


@pytest.mark.parametrize("name", ["", "..", "x" * 300, "../{}", "a\x1b[2J", "a\0b", None])
def test_a_forged_name_of_a_shard_leads_nowhere(model, tmp_path, name):
    model.save(tmp_path / "m.spherec", shards=1)
    arrays, manifest = read_container(tmp_path / "m.spherec", "spherec-model", remedy="")
    forged, shard = tmp_path / "folder" / "m.spherec", shards_of(tmp_path / "m.spherec")[0]
    forged.parent.mkdir()
    manifest["shards"] = [name and name.format(shard)]
    write_container(forged, "spherec-model", arrays, manifest)
    with pytest.raises(DataError, match=r"^[ -~…]* is not next to it"):
        spherec.load(forged)
