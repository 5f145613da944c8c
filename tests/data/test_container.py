"""Arrays and a manifest in one file: whole, or refused with one sentence; never a crash."""

import gzip
import json
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from spherec import Interactions
from spherec.data import container
from spherec.data.container import kind_of, read_container, read_manifest, write_container
from spherec.errors import DataError

ARRAYS = {
    "vectors": np.arange(12, dtype=np.float32).reshape(3, 4),
    "text": np.frombuffer(b"hello", dtype=np.uint8),
    "counts": np.array([1, 2, 3], dtype=np.int64),  # begins at an odd place
    "empty": np.zeros((0, 7), dtype=np.int32),
}
FACTS = {"note": "α", "steps": [1, 2]}


@pytest.fixture
def plain(tmp_path):
    write_container(tmp_path / "x.t", "test", ARRAYS, FACTS)
    return tmp_path / "x.t"


@pytest.fixture(params=[False, True], ids=["plain", "gzipped"])
def path(request, plain):
    if request.param:
        plain.write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
    return plain


def read(path, **options):
    return read_container(path, "test", remedy="make it again", **options)


def same(arrays, others=ARRAYS):
    return arrays.keys() == others.keys() and all(
        one.dtype == others[name].dtype and np.array_equal(one, others[name]) for name, one in arrays.items()
    )


def is_refused(path):
    """False where the file is read as it was written; whatever else it is read as is a failure."""
    try:
        arrays, manifest = read(path)
    except DataError as error:
        return path.name in str(error) and len(str(error)) < 500
    assert same(arrays)
    assert FACTS.items() <= manifest.items()
    return False


# --- What is written comes back --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mmap", [False, True])
def test_it_comes_back(path, mmap):
    arrays, manifest = read(path, mmap=mmap)
    assert same(arrays)
    assert all(array.flags.aligned for array in arrays.values())
    assert {**FACTS, "format": "test", "version": 1}.items() <= manifest.items()
    assert kind_of(path) == "test"
    assert FACTS.items() <= read_manifest(path, "test", remedy="").items()


def test_the_same_content_gives_the_same_aligned_bytes_which_safetensors_opens(plain):
    before = plain.read_bytes()
    write_container(plain, "test", read(plain)[0], FACTS)
    assert plain.read_bytes() == before
    assert (8 + int.from_bytes(before[:8], "little")) % 64 == 0
    assert read(plain)[0]["vectors"].ctypes.data % 64 == 0
    assert same(load_file(plain))


@pytest.mark.parametrize("mmap", [False, True])
def test_changes_stay_in_memory_and_what_is_read_stays_when_the_file_is_replaced(plain, mmap):
    before = plain.read_bytes()
    arrays, _ = read(plain, mmap=mmap)
    arrays["vectors"][0, 0] = 7
    assert plain.read_bytes() == before
    write_container(plain, "test", {"other": np.zeros(3)}, {})
    assert arrays["vectors"].ravel().tolist() == [7, *range(1, 12)]


@pytest.mark.parametrize("kind", ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?", ">i8", ">f4"])
def test_every_kind_of_number(kind, tmp_path):
    array = np.array([0, 1, 1, 0], dtype=kind)[::2]
    write_container(tmp_path / "x.t", "test", {"a": array}, {})
    assert np.array_equal(read(tmp_path / "x.t")[0]["a"], array)


@pytest.mark.parametrize("array", [np.zeros(2, np.clongdouble), np.array([{}]), np.array(["a"])], ids=range(3))
def test_what_is_no_number_is_refused_and_the_old_file_stays(plain, array):
    before = plain.read_bytes()
    with pytest.raises(DataError, match="bad of type"):
        write_container(plain, "test", {"good": np.zeros(3), "bad": array}, {})
    assert plain.read_bytes() == before
    assert list(plain.parent.iterdir()) == [plain]


@pytest.mark.parametrize(
    "vary",
    [
        lambda data: data.filter(np.zeros(len(data), dtype=bool)),
        lambda data: data.with_item_names({10: "ten", 30: "trente—é", 20: ""}),
        lambda data: Interactions.from_matrix(np.zeros((0, 0))),
        lambda data: Interactions.from_pairs("ab", "xy", values=[1, 2], weigh=True),
    ],
    ids=["no pairs", "names", "nothing at all", "weights"],
)
def test_interactions_come_back(vary, tmp_path):
    data = vary(Interactions.from_pairs(["ann", "bob", "bob", "cé"], [10, 10, 30, 20], times=[4.0, 3.0, 2.0, 1.5]))
    data.save(tmp_path / "d.npz")
    loaded = Interactions.load(tmp_path / "d.npz")
    assert (loaded, loaded.steps) == (data, data.steps)
    assert not loaded.indices.flags.writeable
    for name in "ab":
        loaded.save(tmp_path / name, compress=True)
    assert Interactions.load(tmp_path / "a") == data
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


# --- What is damaged is refused --------------------------------------------------------------------------------------


def test_every_flipped_bit_is_refused_or_changes_nothing(path):
    whole = path.read_bytes()
    refused = 0
    for place in range(len(whole)):
        for bit in (1, 128):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
            refused += is_refused(path)
    assert refused > 2 * len(whole) - 2 * 64  # the spaces at the end of the header, or the head of gzip


def test_every_truncation_and_what_comes_after_the_end_is_refused(path):
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert is_refused(path)
    path.write_bytes(whole + b"x")
    assert is_refused(path)


def entry(begin, end, shape=(3,), dtype="I64"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def with_manifest(text):
    return lambda header: header | {"__metadata__": {"manifest": text, "checksum": "00000000"}}


FORGED = {
    "huge shape": lambda header: header | {"counts": entry(53, 77, [2**62])},
    "shape beyond 64 bits": lambda header: header | {"counts": entry(53, 77, [2**70])},
    "negative offset": lambda header: header | {"counts": entry(-24, 0)},
    "offsets turned round": lambda header: header | {"counts": entry(77, 53)},
    "overlap": lambda header: header | {"counts": entry(45, 69)},
    "another type": lambda header: header | {"counts": entry(53, 77, [3], "F64")},
    "an array renamed": lambda header: {{"counts": "kounts"}.get(name, name): one for name, one in header.items()},
    "thousands of arrays": lambda header: header | {f"n{n}": entry(77, 77, [0]) for n in range(20_000)},
    "no metadata": lambda header: {name: one for name, one in header.items() if name != "__metadata__"},
    "nested deeply": lambda header: b"{" + b'"a":[' * 1_000_000,
    "manifest nested deeply": with_manifest("[" * 1_000_000),
    "manifest is a list": with_manifest("[]"),
    "manifest without a version": with_manifest('{"format": "test"}'),
    "manifest too large": with_manifest(" " * (1 << 25)),
    "no UTF-8": lambda header: b'{"\xff\xfe": 1}',
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("checked", [True, False], ids=["checksum wrong", "checksum right"])
def test_forged_headers_are_refused_without_much_memory(plain, forge, checked, monkeypatch):
    whole = plain.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    if not checked:
        monkeypatch.setattr(container.zlib, "crc32", lambda *_: 0)
        header["__metadata__"]["checksum"] = "00000000"
    header = forge(header)
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    plain.write_bytes(len(encoded).to_bytes(8, "little") + encoded + whole[8 + length :])
    tracemalloc.start()
    try:
        with suppress(DataError) if not checked else pytest.raises(DataError, match=r"^[^\n]{1,500}$"):
            read(plain)
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", [0, 1, 2**24 + 1, 2**64 - 1])
def test_a_header_of_any_claimed_length_is_refused(plain, length):
    plain.write_bytes(length.to_bytes(8, "little") + plain.read_bytes()[8:])
    assert is_refused(plain)


def test_a_gzipped_file_that_claims_more_than_it_can_hold_is_refused_before_it_is_unpacked(tmp_path):
    header = {"a": entry(0, 2**40, [2**37]), "__metadata__": {"manifest": '{"format": "test", "version": 1}'}}
    header["__metadata__"]["checksum"] = "00000000"
    encoded = json.dumps(header).encode()
    (tmp_path / "x.t").write_bytes(gzip.compress(len(encoded).to_bytes(8, "little") + encoded))
    assert is_refused(tmp_path / "x.t")


# --- What is something else ------------------------------------------------------------------------------------------


def test_a_file_of_another_kind_or_version(plain, monkeypatch):
    with pytest.raises(DataError, match="holds 'test', not 'model'"):
        read_container(plain, "model", remedy="")
    monkeypatch.setattr(container, "VERSION", 2)
    with pytest.raises(DataError, match="of format version 1, this spherec reads 2"):
        read(plain)


def test_safetensors_from_elsewhere(tmp_path):
    save_file({"a": np.zeros(3)}, tmp_path / "x.t")
    with pytest.raises(DataError, match="another kind of file"):
        read(tmp_path / "x.t")
    assert kind_of(tmp_path / "x.t") is None


FOREIGN = [b"", b"user,item\nann,a\n", bytes(500), b'{"user": "ann"}\n', b"PK\x03\x04" + bytes(99), b"\x1f\x8b"]


@pytest.mark.parametrize("content", [*FOREIGN, gzip.compress(b"user,item\n")], ids=range(7))
def test_foreign_files(tmp_path, content):
    (tmp_path / "x.t").write_bytes(content)
    assert kind_of(tmp_path / "x.t") is None
    assert is_refused(tmp_path / "x.t")


def test_what_cannot_be_read(tmp_path):
    for place, what in (("none.t", "No such file"), (".", "it is a folder")):
        assert kind_of(tmp_path / place) is None
        with pytest.raises(DataError, match=f"cannot read .*{what}"):
            read(tmp_path / place)
