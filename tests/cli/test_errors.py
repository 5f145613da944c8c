"""Bad input on the command line: exit code 2, one sentence, nothing half-written."""

import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spherec import cli
from spherec.cli._output import note
from spherec.distributed import group as process_group
from spherec.errors import DataError, FailedProcessError
from tests.cli.conftest import COLUMNS

ROOT = Path(__file__).parents[2]

GOOD = b"user,item,rating\nann,a,5\nbob,b,4\n"

BAD = {
    "missing column": (b"who,item\nann,a\n", (), ["'user'", "'who'", "--user-column"]),
    "wrong encoding": ("user,item\nann,caf\xe9\n".encode("latin-1"), (), ["line 2", "0xe9", "latin-1"]),
    "truncated gzip": (gzip.compress(GOOD * 500)[:-20], (), ["truncated gzip", "fetch it again"]),
    "non-numeric rating": (GOOD + b"cem,a,good\n", ("--value-column", "rating"), ["line 4", "'good'", "not a number"]),
    "nothing left": (GOOD, ("--min-per-user", "3"), ["users with >= 3 items", "lower the minimum"]),
    "id is NaN": (GOOD + b"NaN,a,3\n", (), ["line 4", "'user'", "'NaN'", "--missing drop"]),
    "0 bytes": (b"", (), ["empty (0 bytes)"]),
    "header only": (b"user,item\n", (), ["no rows"]),
    "unknown encoding": (GOOD, ("--encoding", "klingon"), ["klingon"]),
    "negative minimum": (GOOD, ("--min-per-user", "-1"), ["min_per_user", "-1"]),
}


@pytest.mark.parametrize(("content", "options", "words"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_sentence_and_leaves_nothing_behind(spherec, tmp_path, content, options, words):
    path = tmp_path / "events.csv"
    path.write_bytes(content)
    output = tmp_path / "out.npz"
    output.write_bytes(b"what was there before")
    done = spherec("data", "prepare", path, "-o", output, "--force", *options)
    line = done.refusal()
    for word in words:
        assert word in line
    assert output.read_bytes() == b"what was there before"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["events.csv", "out.npz"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("stats", "no-such-file.csv"), ["no-such-file.csv"]),
        (("stats", "{here}"), ["folder", "no file"]),
        (("split", "book-crossing", "-o", "{here}"), ["exists already"]),
        (("split", "book-crossing", "-o", "{here}/x", "--folds", "1"), ["folds", "got 1"]),
        (("split", "book-crossing", "-o", "{here}/x", "--by", "time"), ["no times"]),
        (("split", "book-crossing", "-o", "{here}/x", "--by", "given"), ["--test"]),
        (("prepare", "book-crossing", "-o", "{here}/no/such/folder/x.npz"), ["cannot write"]),
        (("stats",), ["DATA"]),
    ],
)
def test_wrong_arguments_end_with_code_2(spherec, tmp_path, arguments, words):
    done = spherec("data", *(argument.format(here=tmp_path) for argument in arguments))
    assert done.code == 2
    for word in words:
        assert word in done.err
    assert list(tmp_path.iterdir()) == []


def test_split_that_fails_leaves_no_folder(spherec, ratings, tmp_path):
    done = spherec("data", "split", ratings, *COLUMNS, "-o", tmp_path / "parts", "--by", "time", "--at", "1999-01-01")
    assert done.code == 2
    assert [path.name for path in tmp_path.iterdir()] == [ratings.name]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("stats", "book-crossing", "--user-column", "x"), ["is prepared", "user='x'"]),
        (("prepare", "book-crossing", "-o", "{here}/x", "--header", "a,b"), ["leave out header="]),
        (("stats", "book-crossing", "--min-value", "5"), ["no values any more"]),
        (("prepare", "{csv}"), ["-o is missing"]),
        (("prepare", "{csv}", "-o", "{csv}"), ["exists already", "name another file"]),
        (("prepare", "{csv}", "-o", "{here}/x.npz", "--names", "{here}/none.csv"), ["none.csv", "No such file"]),
        (("prepare", "{csv}", "-o", "/dev/null"), ["not a regular file"]),
        (("stats", "/dev/zero"), ["pipe or a device"]),
        (("stats", "{csv}", "--item-column", "user"), ["column of its own"]),
    ],
)
def test_what_would_be_ignored_or_lost_is_refused(spherec, tmp_path, arguments, words):
    csv = tmp_path / "a.csv"
    csv.write_bytes(GOOD)
    done = spherec("data", *(argument.format(here=tmp_path, csv=csv) for argument in arguments))
    assert done.code == 2
    for word in words:
        assert word in done.err
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a.csv", GOOD)]


def heed_ctrl_c():
    """In a child, before it begins: what a shell runs in the background, and its children, would not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_ends_with_one_word_and_leaves_nothing_behind(tmp_path):
    """The sign that reading has begun is the progress bar, which a terminal of our own gets to see."""
    path, output = tmp_path / "events.csv", tmp_path / "out.npz"
    path.write_text("user,item\n" + "".join(f"u{n % 1000},i{n}\n" for n in range(300_000)) * 20)
    command = [sys.executable, "-m", "spherec", "data", "prepare", str(path), "-o", str(output)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "FORCE_COLOR": "1", "TTY_COMPATIBLE": "1"}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heed_ctrl_c
    )
    seen = b""
    while b"reading" not in seen:
        seen += process.stderr.read1()
        assert process.poll() is None, seen
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    assert out == b""
    assert err.decode().splitlines()[-1].endswith("interrupted")
    assert b"Traceback" not in err
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    "error", [DataError("bad"), OSError("gone"), MemoryError(), FailedProcessError("see another")], ids=repr
)
def test_of_processes_the_first_that_has_failed_itself_prints(monkeypatch, capsys, error, is_first):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(cli, "app", fail)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "run")
    monkeypatch.setattr(process_group, "is_first_to_fail", lambda: is_first)
    with pytest.raises(SystemExit):
        cli.main([])
    is_printed = is_first and not isinstance(error, FailedProcessError)
    assert capsys.readouterr().err.startswith("error: ") == is_printed


def test_of_processes_the_first_prints_remarks(monkeypatch, capsys):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "run")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        note(f"process {rank}")
    note("a warning", everywhere=True)
    assert capsys.readouterr().err == "process 0\na warning\n"


@pytest.mark.parametrize(("n", "is_refused"), [("2", True), ("1", False)])
def test_commands_for_one_process_say_so_under_torchrun(spherec, monkeypatch, n, is_refused):
    for name, value in {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": n, "RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(process_group, "is_first_to_fail", lambda: True)
    done = spherec("presets")
    assert (done.code == 2) == is_refused
    assert ("presets is for one process, and torchrun has started 2" in done.err) == is_refused
