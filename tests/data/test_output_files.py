import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from spherec.data import output_files


def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path):
    before = os.umask(0o027)
    try:
        with output_files.atomic_write(tmp_path / "x") as file:
            file.write(b"1")
        with output_files.atomic_folder(tmp_path / "folder") as folder:
            (folder / "y").touch()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o750


def test_a_replaced_file_keeps_its_permissions(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"1")
    path.chmod(0o604)
    with output_files.atomic_write(path) as file:
        file.write(b"2")
    assert path.read_bytes() == b"2"
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


def test_writing_in_threads_leaves_the_umask_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("os.umask", lambda _: pytest.fail("the umask belongs to the whole process"))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: write_one(tmp_path / f"{n % 3}", b"%d" % (n % 3)), range(30)))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"0": b"0", "1": b"1", "2": b"2"}


def write_one(path, content):
    with output_files.atomic_write(path) as file:
        file.write(content)
