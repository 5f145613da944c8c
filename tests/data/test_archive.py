import io
import json
import os
import stat
import struct
import tracemalloc
import zipfile
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.lib import format as npy

from spherec.data.archive import is_archive, write_archive
from spherec.data.interactions import Interactions
from spherec.data.output_files import atomic_write
from spherec.errors import DataError
from tests.oracles import pairs_of, typed
from tests.strategies import distinct_ids

USERS, ITEMS, TIMES = ["ann", "bob", "bob", "cé"], [10, 10, 30, 20], [4.0, 3.0, 2.0, 1.5]

FORMAT, VERSION = "spherec-interactions", 1  # as in files of every release


@pytest.fixture
def data():
    return Interactions.from_pairs(USERS, ITEMS, times=TIMES).with_item_names({10: "ten", 30: "trente—é"})


@pytest.fixture(params=[False, True], ids=["stored", "compressed"])
def compress(request):
    return request.param


@pytest.fixture
def saved(data, compress, tmp_path):
    path = tmp_path / "data.npz"
    data.save(path, compress=compress)
    return path


# --- What is written comes back --------------------------------------------------------------------------------------


def test_loaded_interactions_equal_the_saved_ones(data, saved):
    loaded = Interactions.load(saved)
    assert loaded == data
    assert loaded.steps == data.steps


@pytest.mark.parametrize(
    "vary",
    [
        lambda data: data.filter(np.zeros(len(data), dtype=bool)),
        lambda data: data.with_item_names({}),
        lambda data: data.with_item_names({10: ""}),
        lambda data: Interactions.from_matrix(np.zeros((0, 0))),
        lambda data: Interactions.from_matrix(np.eye(3)),
    ],
    ids=["no pairs", "no name known", "an empty name", "nothing at all", "no times or names"],
)
def test_odd_interactions_survive_too(data, vary, compress, tmp_path):
    odd = vary(data)
    odd.save(tmp_path / "odd.npz", compress=compress)
    assert Interactions.load(tmp_path / "odd.npz") == odd


@settings(max_examples=30)
@given(ids=distinct_ids(min_size=1))
def test_ids_of_any_kind_keep_their_type_in_a_file(ids, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "any_ids.npz"
    matrix = np.ones((len(ids), 2))
    Interactions.from_matrix(matrix, user_ids=ids, item_ids=["x", "y"]).save(path)
    assert typed(list(Interactions.load(path).user_ids)) == typed(ids)


def test_numpy_alone_rebuilds_the_pairs(data, saved):
    with np.load(saved, allow_pickle=False) as file:
        text, bounds = file["user_ids.str"].tobytes(), file["user_ids.offsets"]
        users = [text[begin:end].decode() for begin, end in pairwise(bounds)]
        rows = np.repeat(users, np.diff(file["indptr"]))
        items = file["item_ids"][file["indices"]]
        pairs = dict(zip(zip(rows.tolist(), items.tolist(), strict=True), file["times"].tolist(), strict=True))
        assert json.loads(file["manifest"].tobytes())["format"] == FORMAT
    assert pairs == pairs_of(data)


def test_stored_arrays_are_aligned_and_in_memory(data, tmp_path):
    data.save(tmp_path / "data.npz")
    loaded = Interactions.load(tmp_path / "data.npz")
    (tmp_path / "data.npz").write_bytes(b"")  # as when another program overwrites it
    assert loaded == data
    for array in (loaded.indptr, loaded.indices, loaded.times):
        assert array.ctypes.data % 64 == 0
        assert not array.flags.writeable


def test_a_loaded_data_set_can_be_saved_over_its_own_file(data, saved, compress):
    loaded = Interactions.load(saved)
    loaded.save(saved, compress=compress)
    assert loaded == data == Interactions.load(saved)


def test_the_same_content_gives_the_same_bytes(saved, compress, tmp_path):
    turned = Interactions.from_pairs(USERS[::-1], ITEMS[::-1], times=TIMES[::-1])
    turned.with_item_names({30: "trente—é", 10: "ten"}).save(tmp_path / "again.npz", compress=compress)
    assert (tmp_path / "again.npz").read_bytes() == saved.read_bytes()


# --- Whole or not at all ---------------------------------------------------------------------------------------------


def test_a_failure_while_writing_leaves_the_old_file_and_nothing_else(saved, compress):
    before = saved.read_bytes()
    arrays = {"good": np.arange(1000), "bad": np.array([object()])}  # objects cannot be written without pickle
    with pytest.raises(ValueError, match=r"[Oo]bject"):
        write_archive(saved, arrays, {"format": FORMAT, "version": VERSION}, compress=compress)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_an_interrupt_leaves_no_file_behind(tmp_path):
    def interrupted():
        with atomic_write(tmp_path / "new") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not list(tmp_path.iterdir())


def test_a_file_gets_the_permissions_that_any_new_file_would_get(saved):
    (saved.parent / "plain").touch()
    assert stat.S_IMODE(saved.stat().st_mode) == stat.S_IMODE((saved.parent / "plain").stat().st_mode)


@pytest.mark.parametrize("place", [".", "missing/data.npz"])
def test_a_place_that_cannot_be_written_is_a_clear_error(data, tmp_path, place):
    with pytest.raises(DataError, match=r"is a folder|cannot write"):
        data.save(tmp_path / place)


# --- Damage ----------------------------------------------------------------------------------------------------------


def outcome(path, data):
    """None where a damaged file is refused or nothing that counts was damaged, else what went wrong."""
    try:
        is_archive(path)
        return None if Interactions.load(path) == data else "loads as something else"
    except DataError:
        return None
    except Exception as error:
        return repr(error)


def test_a_file_cut_short_anywhere_is_refused(saved):
    content = saved.read_bytes()
    for length in range(0, len(content), 7):
        saved.write_bytes(content[:length])
        with pytest.raises(DataError, match=r"data\.npz"):
            Interactions.load(saved)


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_a_flipped_byte_anywhere_is_refused_or_harmless(data, saved, every):
    content = saved.read_bytes()
    flips = np.random.default_rng(0).integers(1, 256, len(content)).tolist()
    wrong = {}
    for position, flip in list(enumerate(flips))[::every]:
        saved.write_bytes(content[:position] + bytes([content[position] ^ flip]) + content[position + 1 :])
        if problem := outcome(saved, data):
            wrong[position] = problem
    assert not wrong, f"{len(wrong)} of {len(content)} flips"


@pytest.mark.parametrize("method", [1, 6, 8, 9, 12, 14, 93, 95, 99])
def test_a_false_compression_method_is_refused(data, saved, method):
    """What other zip tools may write, and what a flip may make of ours: bzip2, lzma, zstd, encryption …"""
    content = bytearray(saved.read_bytes())
    with zipfile.ZipFile(saved) as file:
        start = file.start_dir
    for name in (b"manifest.npy", b"indices.npy"):
        entry = content.rindex(name, start) - 46  # where its record in the directory begins
        struct.pack_into("<H", content, entry + 10, method)
        saved.write_bytes(content)
        assert not outcome(saved, data)


# --- Files of others -------------------------------------------------------------------------------------------------


def as_npy(array, **header):
    """The bytes of a .npy file; `header` overrides what it declares."""
    file = io.BytesIO()
    npy.write_array_header_1_0(file, {**npy.header_data_from_array_1_0(array), **header})
    return file.getvalue() + array.tobytes()


def as_manifest(content):
    return as_npy(np.frombuffer(json.dumps(content).encode(), dtype=np.uint8))


GOOD = {
    "manifest": as_manifest({"format": FORMAT, "version": VERSION, "steps": []}),
    "indptr": as_npy(np.array([0, 1])),
    "indices": as_npy(np.array([0], dtype=np.int32)),
    "user_ids": as_npy(np.array([7])),
    "item_ids": as_npy(np.array([8])),
}


def tagged(text):
    """Item ids in the file as one JSON text."""
    return {
        "item_ids": None,
        "item_ids.json": as_npy(np.frombuffer(text, np.uint8)),
        "item_ids.offsets": as_npy(np.array([0, len(text)])),
    }


def write_zip(path, members, method):
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members.items():
            if content is not None:
                file.writestr(f"{name}.npy", content)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "compressed"])
def test_a_file_made_by_other_tools_loads(tmp_path, method):
    write_zip(tmp_path / "foreign.npz", GOOD, method)
    assert pairs_of(Interactions.load(tmp_path / "foreign.npz")) == {(7, 8): None}


FALSE_MEMBERS = {
    "no manifest": {"manifest": None},
    "manifest is not JSON": {"manifest": as_npy(np.frombuffer(b"{", np.uint8))},
    "manifest is a list": {"manifest": as_manifest([])},
    "manifest is nested too deep": {"manifest": as_npy(np.frombuffer(b"[" * 100_000, np.uint8))},
    "manifest is enormous": {"manifest": as_npy(np.zeros(1 << 21, np.uint8))},
    "other format": {"manifest": as_manifest({"format": "spherec-model", "version": VERSION})},
    "newer version": {"manifest": as_manifest({"format": FORMAT, "version": VERSION + 1, "steps": []})},
    "no version": {"manifest": as_manifest({"format": FORMAT, "steps": []})},
    "no steps": {"manifest": as_manifest({"format": FORMAT, "version": VERSION})},
    "steps are no steps": {"manifest": as_manifest({"format": FORMAT, "version": VERSION, "steps": [{"x": 1}]})},
    "no indices": {"indices": None},
    "no user ids": {"user_ids": None},
    "huge shape": {"indices": as_npy(np.array([0], dtype=np.int32), shape=(2**40,))},
    "negative shape": {"indices": as_npy(np.array([0], dtype=np.int32), shape=(-1, -1))},
    "two dimensions": {"indices": as_npy(np.array([[0]], dtype=np.int32))},
    "times in two dimensions": {"times": as_npy(np.array([[1.0]]))},
    "times are texts": {"times": as_npy(np.array(["noon"]))},
    "times are not numbers": {"times": as_npy(np.array([np.nan]))},
    "columns first": {"indices": as_npy(np.array([0], dtype=np.int32), fortran_order=True)},
    "pickled objects": {"item_ids": as_npy(np.array([8]), descr="|O")},
    "empty dtype": {"item_ids": as_npy(np.array([], dtype="V0"), shape=(1,))},
    "not an array": {"indices": b"nothing"},
    "empty member": {"indices": b""},
    "other byte order": {"indices": as_npy(np.array([0], dtype=">i4"))},
    "offsets missing": {"item_ids": None, "item_ids.str": as_npy(np.zeros(1, np.uint8))},
    "offsets empty": {**tagged(b'["int", "8"]'), "item_ids.offsets": as_npy(np.array([], dtype=np.int64))},
    "offsets with fractions": {**tagged(b'["int", "8"]'), "item_ids.offsets": as_npy(np.array([0.0, 12.0]))},
    **{
        f"id {text.decode()}": tagged(text)
        for text in (
            b"8",
            b"[]",
            b'["set", []]',
            b'[[], "8"]',
            b'["int", "x"]',
            b'["float", "x"]',
            b'["bytes", "x"]',
            b'["date", "x"]',
            b'["decimal", "x"]',
            b'["fraction", "1/0"]',
            b'["uuid", "x"]',
            b'["timedelta", [1e30]]',
            b'["tuple", [[]]]',
            b'["tuple", 8]',
            b'["float", "nan"]',
        )
    },
}


@pytest.mark.parametrize("members", FALSE_MEMBERS.values(), ids=FALSE_MEMBERS)
def test_a_file_with_false_content_is_refused_by_name(tmp_path, members):
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        write_zip(tmp_path / "false.npz", GOOD | members, method)
        with pytest.raises(DataError, match=r"false\.npz"):
            Interactions.load(tmp_path / "false.npz")


def test_a_member_that_claims_to_unpack_to_terabytes_is_refused(data, tmp_path):
    path = tmp_path / "bomb.npz"
    write_zip(path, GOOD, zipfile.ZIP_DEFLATED)
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"indices.npy") - 46
    struct.pack_into("<L", content, entry + 24, 2**32 - 2)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"indices\.npy claims 4,294,967,294 bytes"):
        Interactions.load(path)


FORGED_HEADERS = {
    "no end": "{'descr': '<i4', 'fortran_order': False, 'shape': (1",
    "800 parentheses": "{'descr': '<i4', 'fortran_order': False, 'shape': " + "(" * 800,
    "3,000 signs": "{'descr': '<i4', 'fortran_order': False, 'shape': " + "-" * 3000 + "1}",
    "no table": "(" * 3 + ")" * 3,
    "keys that cannot be sorted": "{'descr': '<i4', 1: False, (): (1,)}",
    "a shape of texts": "{'descr': '<i4', 'fortran_order': False, 'shape': ('1',)}",
    "a shape beyond 64 bits": "{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
    "many digits": "{'descr': '<i4', 'fortran_order': False, 'shape': (" + "1, " * 60 + ")",
    "no text": "\0\xff",
}


@pytest.mark.parametrize("header", FORGED_HEADERS.values(), ids=FORGED_HEADERS)
@pytest.mark.parametrize("member", ["indices", "manifest"])
def test_a_forged_header_is_refused_by_name(tmp_path, header, member):
    forged = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode("latin-1") + GOOD[member][128:]
    write_zip(tmp_path / "false.npz", GOOD | {member: forged}, zipfile.ZIP_STORED)
    with pytest.raises(DataError, match=rf"false\.npz is damaged: {member}\.npy"):
        Interactions.load(tmp_path / "false.npz")


@pytest.mark.parametrize("size", [2**40, 2**63 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "compressed"])
def test_sizes_of_64_bits_are_refused(tmp_path, size, method):
    path = tmp_path / "lie.npz"
    write_zip(path, GOOD, method)
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"item_ids.npy") - 46  # the last record of the directory
    struct.pack_into("<LL", content, entry + 20, 2**32 - 1, 2**32 - 1)
    struct.pack_into("<H", content, entry + 30, 20)
    extra = struct.pack("<HHQQ", 1, 16, size, size)
    content[entry + 46 + 12 : entry + 46 + 12] = extra
    end = content.rindex(b"PK\x05\x06")
    struct.pack_into("<L", content, end + 12, struct.unpack_from("<L", content, end + 12)[0] + len(extra))
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"lie\.npz is damaged: item_ids\.npy claims"):
        Interactions.load(path)


def test_members_that_share_their_bytes_are_refused(tmp_path):
    path = tmp_path / "shared.npz"
    write_zip(path, GOOD, zipfile.ZIP_STORED)
    with zipfile.ZipFile(path, "a") as file:
        first = file.getinfo("user_ids.npy")
        for number in range(1000):
            twin = zipfile.ZipInfo(f"twin{number}.npy")
            twin.header_offset, twin.CRC = first.header_offset, first.CRC
            twin.file_size = twin.compress_size = first.file_size
            file.filelist.append(twin)
        file._didModify = True
    with pytest.raises(DataError, match=r"shared\.npz is damaged: its members overlap"):
        Interactions.load(path)


def test_a_small_file_that_unpacks_to_much_is_refused_unless_allowed(data, tmp_path):
    path = tmp_path / "bomb.npz"
    write_zip(path, GOOD | {"indices": None}, zipfile.ZIP_DEFLATED)
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("indices.npy", "w") as member,
    ):
        for _ in range(300):
            member.write(bytes(1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"bomb\.npz would unpack .* MB to 0\.315 GB; .*max_unpacked=") as refused:
            Interactions.load(path)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
    assert len(str(refused.value)) < 500
    data.save(path, compress=True)
    with pytest.raises(DataError, match="if you trust it"):
        Interactions.load(path, max_unpacked=1e-6)
    assert Interactions.load(path, max_unpacked=1) == data


def test_a_fraction_of_a_billion_digits_is_refused_at_once(tmp_path):
    write_zip(tmp_path / "false.npz", GOOD | tagged(b'["fraction", "1e999999999"]'), zipfile.ZIP_STORED)
    with pytest.raises(DataError, match=r"false\.npz is damaged"):
        Interactions.load(tmp_path / "false.npz")


@pytest.mark.parametrize("content", [b"", b"user,item\n1,2\n", b"PK\x05\x06" + bytes(18), b"PK\x03\x04" + bytes(99)])
def test_what_is_no_archive_is_refused_by_name(tmp_path, content):
    path = tmp_path / "other.csv"
    path.write_bytes(content)
    assert not is_archive(path)
    with pytest.raises(DataError, match=r"other\.csv"):
        Interactions.load(path)


def test_a_path_that_cannot_be_read_is_refused_by_name(tmp_path):
    for path in (tmp_path, tmp_path / "missing.npz"):
        assert not is_archive(path)
        with pytest.raises(DataError, match=f"cannot read .*{path.name}"):
            Interactions.load(path)


def test_only_a_zip_with_a_manifest_is_an_archive(saved, tmp_path):
    assert is_archive(saved)
    assert is_archive(os.fspath(saved))
    np.savez(tmp_path / "arrays.npz", a=np.arange(3))
    assert not is_archive(tmp_path / "arrays.npz")
