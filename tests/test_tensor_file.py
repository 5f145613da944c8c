"""Arrays and a manifest in a safetensors file: whole, or refused with one sentence; never a crash."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from spherec.data.archive import is_tensor_file
from spherec.data.tensor_file import read_tensors, write_tensors
from spherec.errors import DataError

ARRAYS = {
    "vectors": np.arange(12, dtype=np.float32).reshape(3, 4),
    "counts": np.array([1, 2, 3], dtype=np.int64),
    "text": np.frombuffer(b"hello", dtype=np.uint8),
    "empty": np.zeros((0, 7), dtype=np.int32),
}
MANIFEST = {"format": "test", "version": 3, "note": "α"}


@pytest.fixture
def path(tmp_path):
    write_tensors(tmp_path / "x.t", ARRAYS, MANIFEST)
    return tmp_path / "x.t"


def read(path):
    return read_tensors(path, "test", 3, remedy="make it again")


def header_of(whole):
    length = int.from_bytes(whole[:8], "little")
    return json.loads(whole[8 : 8 + length]), whole[8 + length :]


def assembled(header, content):
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(encoded).to_bytes(8, "little") + encoded + content


def same(arrays, others=ARRAYS):
    return arrays.keys() == others.keys() and all(
        one.dtype == others[name].dtype and np.array_equal(one, others[name]) for name, one in arrays.items()
    )


# --- What is written comes back --------------------------------------------------------------------------------------


def test_it_comes_back(path):
    arrays, manifest = read(path)
    assert same(arrays)
    assert MANIFEST.items() <= manifest.items()
    assert is_tensor_file(path)


def test_other_readers_open_it(path):
    assert same(load_file(path))


def test_the_same_content_gives_the_same_bytes(path, tmp_path):
    write_tensors(tmp_path / "y.t", ARRAYS, MANIFEST)
    assert (tmp_path / "y.t").read_bytes() == path.read_bytes()


def test_the_first_array_is_aligned(path):
    assert (8 + int.from_bytes(path.read_bytes()[:8], "little")) % 64 == 0


def test_arrays_are_mapped_and_their_changes_stay_in_memory(path):
    before = path.read_bytes()
    arrays, _ = read(path)
    arrays["vectors"][:] = 0
    assert path.read_bytes() == before
    assert same(read(path)[0])


@pytest.mark.parametrize("kind", ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?", ">i8", ">f4"])
def test_every_kind_of_number(kind, tmp_path):
    array = np.array([0, 1, 1, 0], dtype=kind)[::2]
    write_tensors(tmp_path / "x.t", {"a": array}, MANIFEST)
    assert np.array_equal(read(tmp_path / "x.t")[0]["a"], array)


def test_numbers_that_no_file_holds_are_refused(tmp_path):
    with pytest.raises(DataError, match="at most 64 bits"):
        write_tensors(tmp_path / "x.t", {"a": np.zeros(2, np.clongdouble)}, MANIFEST)
    assert not list(tmp_path.iterdir())


# --- What is damaged is refused --------------------------------------------------------------------------------------


def test_every_flipped_bit_is_refused_or_changes_nothing(path):
    whole = path.read_bytes()
    refused = 0
    for place in range(len(whole)):
        for bit in (1, 128):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
            try:
                arrays, manifest = read(path)
            except DataError:
                refused += 1
            else:  # the spaces at the end of the header
                assert same(arrays)
                assert MANIFEST.items() <= manifest.items()
    assert refused > 2 * len(whole) - 2 * 64


def test_every_truncation_is_refused(path):
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match=r"x\.t"):
            read(path)


def test_what_comes_after_the_end_is_refused(path):
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(DataError):
        read(path)


def entry(begin, end, shape=(3,), dtype="I64"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


BOMBS = {
    "huge shape": lambda header: header | {"counts": entry(48, 72, [2**62])},
    "shape beyond 64 bits": lambda header: header | {"counts": entry(48, 72, [2**70])},
    "product beyond 64 bits": lambda header: header | {"counts": entry(48, 72, [2**40, 2**40])},
    "negative shape": lambda header: header | {"counts": entry(48, 72, [-3])},
    "negative offset": lambda header: header | {"counts": entry(-24, 0)},
    "offsets turned round": lambda header: header | {"counts": entry(72, 48)},
    "offset past the end": lambda header: header | {"counts": entry(2**40, 2**40 + 24)},
    "overlap": lambda header: header | {"counts": entry(40, 64)},
    "all over each other": lambda header: {**header, **{name: entry(0, 24) for name in ARRAYS}},
    "unknown type": lambda header: header | {"counts": entry(48, 72, [3], "X9")},
    "exotic type": lambda header: header | {"text": header["text"] | {"dtype": "F8_E4M3"}},
    "another type": lambda header: header | {"counts": entry(48, 72, [3], "F64")},
    "no type": lambda header: header | {"counts": {"shape": [3], "data_offsets": [48, 72]}},
    "an array more": lambda header: header | {"more": entry(77, 77, [0])},
    "an array renamed": lambda header: {{"counts": "kounts"}.get(name, name): one for name, one in header.items()},
    "thousands of arrays": lambda header: header | {f"n{n}": entry(77, 77, [0]) for n in range(20_000)},
    "no metadata": lambda header: {name: one for name, one in header.items() if name != "__metadata__"},
    "metadata of another kind": lambda header: header | {"__metadata__": {"manifest": 3}},
    "a list": lambda header: [header],
    "nested deeply": lambda header: b"{" + b'"a":[' * 1_000_000,
    "manifest nested deeply": lambda header: header | {"__metadata__": {"manifest": "[" * 1_000_000}},
    "manifest of a huge number": lambda header: header | {"__metadata__": {"manifest": "9" * 1_000_000}},
    "manifest is a list": lambda header: header | {"__metadata__": {"manifest": "[]"}},
    "manifest is no JSON": lambda header: header | {"__metadata__": {"manifest": "{"}},
    "manifest too large": lambda header: header | {"__metadata__": {"manifest": " " * (1 << 25)}},
    "no UTF-8": lambda header: b'{"\xff\xfe": 1}',
    "nothing": lambda header: b"{}",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_bombs_are_refused_without_much_memory(path, bomb):
    header, content = header_of(path.read_bytes())
    path.write_bytes(assembled(bomb(header), content))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"x\.t") as refused:
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("length", [0, 1, 2**24 + 1, 2**63 - 1, 2**63, 2**64 - 1])
def test_a_header_of_any_claimed_length_is_refused(path, length):
    path.write_bytes(length.to_bytes(8, "little") + path.read_bytes()[8:])
    with pytest.raises(DataError, match=r"x\.t"):
        read(path)


@settings(max_examples=200)
@given(noise=st.binary(max_size=400), cut=st.integers(0, 900))
def test_noise_is_refused(noise, cut, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "noise.t"
    write_tensors(path, ARRAYS, MANIFEST)
    whole = path.read_bytes()
    changed = whole[:cut] + noise + whole[cut + len(noise) :]
    path.write_bytes(changed)
    try:
        arrays, _ = read(path)
    except DataError:
        return
    assert same(arrays)


# --- What is something else ------------------------------------------------------------------------------------------


def test_a_file_of_another_kind_or_version(path):
    with pytest.raises(DataError, match="holds 'test', not 'model'; give the right file"):
        read_tensors(path, "model", 3, remedy="")
    with pytest.raises(DataError, match="of format version 3, this spherec reads 2; install a newer spherec"):
        read_tensors(path, "test", 2, remedy="")
    with pytest.raises(DataError, match="of format version 3, this spherec reads 4; install a matching spherec"):
        read_tensors(path, "test", 4, remedy="")


def test_safetensors_from_elsewhere(tmp_path):
    save_file({"a": np.zeros(3)}, tmp_path / "x.t")
    with pytest.raises(DataError, match="a safetensors file, but not made by spherec"):
        read(tmp_path / "x.t")


@pytest.mark.parametrize(
    "content", [b"", b"user,item\nann,a\n", bytes(500), b'{"user": "ann"}\n', b"\x80\x04\x95pickle"]
)
def test_foreign_files(tmp_path, content):
    (tmp_path / "x.t").write_bytes(content)
    with pytest.raises(DataError, match=r"x\.t is damaged or not made by spherec"):
        read(tmp_path / "x.t")
    assert not is_tensor_file(tmp_path / "x.t")


def test_what_cannot_be_read(tmp_path):
    for place, what in (("none.t", "no such file"), (".", "not a file")):
        with pytest.raises(DataError, match=f"cannot read .*{what}.*; check the path"):
            read(tmp_path / place)
