"""The list of commands, which is printed without importing them."""

import pytest
import typer

from spherec.cli import app

COMMANDS = typer.main.get_command(app)


@pytest.mark.parametrize("name", COMMANDS.commands)
def test_the_list_says_what_the_command_says_of_itself(name):
    _, command, _ = COMMANDS.resolve_command(None, [name])
    assert command.name == name or hasattr(command, "commands")
    assert " ".join(command.help.split("\n\n")[0].split()) == COMMANDS.commands[name].help


def test_a_group_within_has_the_options_of_the_others(spherec):
    assert "completion" not in spherec("data", "--help").out


def test_a_misspelt_command_is_an_error_that_names_the_right_one(spherec):
    done = spherec("tran")
    assert done.code == 2
    assert "'train'" in done.err
