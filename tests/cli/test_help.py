"""Words that no command knows, and options that only `data prepare` has."""

import warnings

import pytest

from spherec import cli
from spherec.errors import UnreadValuesWarning


def test_a_group_within_has_the_options_of_the_others(spherec):
    assert "completion" not in spherec("data", "--help").out


def test_a_misspelt_command_is_an_error_that_names_the_right_one(spherec):
    done = spherec("tran")
    assert done.code == 2
    assert "(did you mean 'train'?)" in done.err


@pytest.mark.parametrize("words", ["train", "recommend", "evaluate m", "tune book-crossing", "data split", "compare"])
def test_a_missing_word_is_an_error_with_an_example(spherec, words):
    done = spherec(*words.split())
    assert done.code == 2
    assert f"for example: spherec {words.removesuffix(' m').removesuffix(' book-crossing')} " in done.err


def test_help_shows_no_types_of_flags_and_arguments(spherec):
    for words in ((), ("data",), ("data", "stats"), ("recommend",)):
        shown = spherec(*words, "--help").out
        assert not any(text in shown for text in ("<", "\x1b"))


def test_a_warning_is_shown_once(monkeypatch, capsys):
    def warn(*_, **__):
        for number in (1, 1, 2):
            warnings.warn(f"odd {number}", UnreadValuesWarning, stacklevel=1)

    monkeypatch.setattr(cli, "app", warn)
    with pytest.raises(SystemExit):
        cli.main(["presets"])
    assert capsys.readouterr().err == "warning: odd 1\nwarning: odd 2\n"


def test_an_option_that_only_prepare_has_is_an_error_that_names_prepare(spherec):
    done = spherec("train", "plays.csv", "--header", "user,item", "-o", "m.spherec")
    assert done.code == 2
    assert "'spherec data prepare FILE --header … -o data.npz' has it" in " ".join(done.err.split())


def test_a_file_that_needs_such_an_option_is_an_error_with_the_line_to_run(spherec, tmp_path):
    path, columns = tmp_path / "plays.csv", ("--user-column", "who", "--item-column", "what")
    path.write_bytes("who,what\nann,caf\xe9\n".encode("latin-1"))
    line = spherec("train", path, *columns, "-o", tmp_path / "m.spherec").refusal()
    prepare = f"spherec data prepare {path} {' '.join(columns)} --encoding … -o plays.npz"
    assert f"'{prepare}', and give plays.npz instead" in line
    path.write_text("who,what\nann,\nbob,a\n")
    line = spherec("train", path, *columns, "-o", tmp_path / "m.spherec").refusal()
    assert f"{' '.join(columns)} --missing drop -o plays.npz'" in line
    assert "spherec data prepare" not in spherec("data", "prepare", path, *columns, "-o", tmp_path / "x.npz").refusal()
