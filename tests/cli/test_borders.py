"""The borders of the command line: odd files, names, ids and outputs end with one sentence, and nothing is lost."""

import io
import os
import re

import pytest

from spherec.cli import main
from spherec.data.interactions import Interactions
from tests.recommender.models import model_of, small

EVIL = "\x1b]0;owned\x07\u202e\x9b31m"


@pytest.fixture
def model(tmp_path):
    data = Interactions.from_pairs(["=u", EVIL, "=u"], [EVIL, "@i", "\nk"])
    model_of(data).save(tmp_path / "m.spherec")
    return tmp_path / "m.spherec"


def is_one_sentence(done):
    line = done.refusal()
    return "\x1b]" not in line and "Error" not in line


def odd_paths(folder):
    os.mkfifo(folder / "pipe")
    (folder / "empty").mkdir()
    (folder / "loop").symlink_to("loop")
    return [
        folder / "pipe",
        folder / "empty",
        folder / "loop",
        "/dev/zero",
        "x" * 245,
        "x" * 5000,
        EVIL,
        "a\nb",
        "/proc/self/mem",
    ]


def test_odd_files_are_one_sentence_in_every_command(spherec, tmp_path, model):
    small().save(tmp_path / "data.npz")
    for path in odd_paths(tmp_path):
        for command in (
            ("data", "stats", path),
            ("data", "prepare", path, "--head", 1),
            ("data", "prepare", path, "-o", tmp_path / "out.npz"),
            ("info", path),
            ("recommend", path, "u"),
            ("recommend", model, f"@{path}"),
            ("evaluate", path, "--train", tmp_path / "data.npz", "--test", tmp_path / "data.npz"),
        ):
            assert is_one_sentence(spherec(*command)), command
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize("path", ["pipe", "folder", "/dev/zero", "x" * 300, "deep.toml"])
def test_settings_come_from_small_regular_files_only(spherec, tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
    small().save(tmp_path / "data.npz")
    assert is_one_sentence(spherec("train", "data.npz", "-o", "m.spherec", "--config", path))


def test_control_characters_reach_no_terminal(spherec, model):
    for command in (
        ("recommend", model, "=u", "--with-seen"),
        ("recommend", model, EVIL, "--with-seen"),
        ("similar", model, EVIL),
        ("similar", model, EVIL, "--users"),
        ("explain", model, EVIL, EVIL),
        ("recommend", model, f"no{EVIL}"),
    ):
        done = spherec(*command)
        for character in EVIL[0], "\x07", "\u202e", "\x9b":
            assert character not in (done.out + done.err)


@pytest.mark.parametrize(
    "words",
    [
        ("WORD",),
        ("--WORD",),
        ("-WORD",),
        ("data", "WORD"),
        ("data", "stats", "--WORD", "x"),
        ("data", "stats", "x", "WORD"),
        ("train", "x", "-o", "m", "--dim", "WORD"),
        ("train", "x", "-o", "m", "--device", "WORD"),
        ("train", "x", "-o", "m", "--json=WORD"),
        ("train", "x", "-o", "m", "--set", "WORD"),
        ("train", "x", "-o", "m", "--set", "WORD=1"),
        ("presets", "WORD"),
        ("export", "WORD", "-o", "WORD"),
        ("compare", "WORD", "-o", "WORD", "--models", "WORD"),
        ("tune", "WORD", "-o", "WORD", "--space", "WORD"),
        ("reproduce", "WORD"),
    ],
)
def test_control_characters_of_the_command_line_reach_no_terminal(spherec, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    done = spherec(*(word.replace("WORD", f"{EVIL}\x08\ufeff") for word in words))
    assert done.code == 2
    printed = re.sub("\x1b\\[[0-9;]*m", "", done.out + done.err)  # without colours
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ufeff]", printed)


def test_json_keeps_ids_exactly(spherec, model):
    import json

    found = {record["item"] for record in json.loads(spherec("recommend", model, "=u", "--with-seen", "--json").out)}
    assert found == {EVIL, "@i", "\nk"}


@pytest.mark.parametrize("option", [(), ("--json",)])
def test_ids_are_printed_where_the_encoding_lacks_their_characters(tmp_path, monkeypatch, option):
    """As on Windows, where output that is redirected is not in UTF-8."""
    model_of(Interactions.from_pairs(["u", "u"], ["東京", "é"])).save(tmp_path / "m.spherec")
    printed = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(printed, encoding="ascii", write_through=True))
    with pytest.raises(SystemExit) as ended:
        main(["recommend", str(tmp_path / "m.spherec"), "u", "--with-seen", *option])
    assert not ended.value.code
    assert b"\\u6771\\u4eac" in printed.getvalue()


def test_existing_outputs_stay_unless_forced(spherec, model, tmp_path):
    (tmp_path / "d.csv").write_text("user,item\nu,i\n")
    for name, command in {
        "out.npz": ("data", "prepare", tmp_path / "d.csv"),
        "out.parquet": ("export", model),
        "out.usearch": ("export", model),
        "lists.csv": ("recommend", model, "=u"),
        "m2.spherec": ("train", tmp_path / "d.csv", "--epochs", 1),
    }.items():
        output = tmp_path / name
        output.write_bytes(b"precious")
        done = spherec(*command, "-o", output)
        assert done.code == 2
        assert "exists already" in done.err
        assert output.read_bytes() == b"precious"
    assert spherec("data", "prepare", tmp_path / "d.csv", "-o", tmp_path / "out.npz", "--force").code == 0
    assert len(Interactions.load(tmp_path / "out.npz")) == 1
