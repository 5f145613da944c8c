import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherec.data import files
from spherec.data.ids import IdMap
from spherec.errors import DataError
from tests.oracles import typed
from tests.strategies import ID_KINDS, distinct_ids


def round_trip(ids):
    arrays = files.encode_ids(IdMap(ids), "x")
    assert all(array.dtype.kind in "iufb" and array.ndim == 1 for array in arrays.values())
    return list(IdMap(files.decode_ids(arrays, "x")))


@given(distinct_ids())
def test_ids_of_any_kind_survive_as_plain_numbers_with_their_type(ids):
    assert typed(round_trip(ids)) == typed(ids)


def test_the_layout_is_the_documented_one():
    numbers = files.encode_ids(IdMap([3, 1]), "x")
    assert {name: array.tolist() for name, array in numbers.items()} == {"x": [3, 1]}
    texts = files.encode_ids(IdMap(["é", "", "b"]), "x")
    assert texts["x.str"].tobytes() == "éb".encode()
    assert texts["x.offsets"].tolist() == [0, 2, 2, 3]
    tagged = files.encode_ids(IdMap([(1, "a")]), "x")
    assert json.loads(tagged["x.json"].tobytes()) == ["tuple", [["int", "1"], ["str", "a"]]]


class Shelf(str, Enum):  # noqa: UP042 - the older way, whose str() is not its value
    FICTION = "fiction"


class Floor(int, Enum):
    FIRST = 1


class Place(NamedTuple):
    shelf: str
    floor: int


@pytest.mark.parametrize("one", [Shelf.FICTION, Floor.FIRST, Place("a", 1), pd.Timestamp(1), pd.Timedelta(1)], ids=repr)
def test_an_id_of_a_derived_type_is_refused_or_stays_equal(one):
    with suppress(DataError):
        assert round_trip([one, "other"]) == [one, "other"]


def test_equal_ids_give_equal_bytes():
    one, other = frozenset([0, 8]), frozenset([8, 0])  # equal, but they iterate in different order
    encoded = [files.encode_ids(IdMap([ids]), "x")["x.json"].tobytes() for ids in (one, other)]
    assert encoded[0] == encoded[1]


def test_ids_of_a_foreign_type_are_refused_by_name():
    with pytest.raises(DataError, match=r"ids of type complex cannot be saved, got 1j"):
        files.encode_ids(IdMap([1j]), "x")


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"x.str": b"ab", "x.offsets": []},
        {"x.str": b"ab", "x.offsets": [1, 2]},
        {"x.str": b"ab", "x.offsets": [0, 1]},
        {"x.str": b"ab", "x.offsets": [0, 3]},
        {"x.str": b"ab", "x.offsets": [0, 2, 1, 2]},
        {"x.str": b"\xff", "x.offsets": [0, 1]},
        {"x.json": b"[", "x.offsets": [0, 1]},
    ],
    ids=str,
)
def test_arrays_that_are_not_whole_are_a_value_error(arrays):
    arrays = {
        name: np.frombuffer(content, np.uint8) if isinstance(content, bytes) else np.array(content, dtype=np.int64)
        for name, content in arrays.items()
    }
    with pytest.raises(ValueError, match=r".+"):
        files.decode_ids(arrays, "x")


@given(st.lists(st.none() | ID_KINDS["str"].filter(bool)))
def test_names_survive(names):
    assert files.decode_names(files.encode_names(names, "x"), "x") == tuple(names)


def test_no_names_are_none():
    assert files.decode_names({}, "x") is None


def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path):
    before = os.umask(0o027)
    try:
        with files.atomic_write(tmp_path / "x") as file:
            file.write(b"1")
        with files.atomic_folder(tmp_path / "folder") as folder:
            (folder / "y").touch()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o750


def test_a_replaced_file_keeps_its_permissions(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"1")
    path.chmod(0o604)
    with files.atomic_write(path) as file:
        file.write(b"2")
    assert path.read_bytes() == b"2"
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


def test_writing_in_threads_leaves_the_umask_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("os.umask", lambda _: pytest.fail("the umask belongs to the whole process"))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: write_one(tmp_path / f"{n % 3}", b"%d" % (n % 3)), range(30)))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"0": b"0", "1": b"1", "2": b"2"}


def write_one(path, content):
    with files.atomic_write(path) as file:
        file.write(content)


def test_folders_that_killed_writers_left_are_removed_and_others_stay(tmp_path):
    (tmp_path / ".split.0123abcd.part").mkdir()
    (tmp_path / ".split.0123abcd.part" / "train.npz").write_text("half")
    (tmp_path / ".other.0123abcd.part").mkdir()
    with files.atomic_folder(tmp_path / "split") as one:
        (one / "a").write_text("a")
        assert not (tmp_path / ".split.0123abcd.part").exists()
        files._remove_abandoned(tmp_path / "split")
        assert one.exists(), "its writer is alive"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other.0123abcd.part", "split"]
