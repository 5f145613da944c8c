"""Outputs on a disk without room: an error of ours, the old file stays, and nothing is left behind."""

import resource
from contextlib import contextmanager

import pytest

import spherec
from spherec.errors import DataError
from tests.recommender.models import model_of, small

MODEL = model_of(small(), dim=32)
OLD = b"an old good file"


@contextmanager
def files_of_at_most(size):
    """Let no file of this process grow beyond a size, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def export(path):
    spherec.export.write(path, MODEL, what="items" if path.suffix == ".usearch" else "both")


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("m.spherec", MODEL.save),
        ("i.usearch", lambda path: model_of(small(), dim=32).build_index(path)),
        ("d.npz", MODEL.data.save),
        ("lists.csv", MODEL.recommend_to_file),
        ("lists.parquet", MODEL.recommend_to_file),
        ("v.npz", export),
        ("v.parquet", export),
        ("v.usearch", export),
        ("v.sql", export),
    ],
)
def test_a_disk_without_room_leaves_the_old_file(tmp_path, name, write):
    path = tmp_path / name
    write(path)
    written = {file.name: file.stat().st_size for file in tmp_path.iterdir()}
    largest = max(written.values())
    for size in sorted({0, 1, largest // 3, largest // 2, largest - 8, largest - 1}):
        for file in written:
            (tmp_path / file).write_bytes(OLD)
        with files_of_at_most(size), pytest.raises(DataError, match=r"cannot write .*; make room") as refused:
            write(path)
        assert len(str(refused.value)) < 500
        assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == dict.fromkeys(written, OLD), size


def test_folders_of_killed_writers_are_removed_and_those_of_living_ones_stay(tmp_path):
    from spherec.data.output_files import atomic_folder, temporary_folder

    left, other = tmp_path / ".lists.parquet.0a1b2c3d.part", tmp_path / ".lists2.parquet.0a1b2c3d.part"
    for folder in (left, other):
        folder.mkdir()
        (folder / "0.parquet").write_bytes(b"rest")
    with temporary_folder(tmp_path / "lists.parquet") as living:
        MODEL.recommend_to_file(tmp_path / "lists.parquet", k=3)
        assert living.exists()
        assert not left.exists()
    left = tmp_path / ".parts.0a1b2c3d.part"
    left.mkdir()
    with atomic_folder(tmp_path / "parts") as folder:
        (folder / "x").write_bytes(b"new")
    assert sorted(tmp_path.iterdir()) == sorted([other, tmp_path / "lists.parquet", tmp_path / "parts"])
