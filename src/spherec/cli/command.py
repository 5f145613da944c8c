"""A command as it could be given again."""

import shlex
from collections.abc import Collection, Mapping
from typing import Any

import typer


def words_of(
    context: typer.Context,
    names: Collection[str],
    *,
    always: Collection[str] = (),
    instead: Mapping[str, Any] | None = None,
) -> list[str]:
    """The argument and the options of these names that were given, and those of `always` also where they were not.

    `instead` has values to show for those that were given.
    """
    words: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        is_given = name in names and source is not None and source.name == "COMMANDLINE"
        value = (instead or {}).get(name, context.params.get(name))
        if value is None or not (is_given or name in always):
            continue
        if parameter.param_type_name == "argument":
            words = [str(value), *words]
        elif isinstance(value, bool):
            words.append(parameter.opts[0] if value else [*parameter.secondary_opts, *parameter.opts][0])
        else:
            for one in value if isinstance(value, list | tuple) else [value]:
                words += [parameter.opts[0], str(one)]
    return words


def written(*words: object) -> str:
    """As one would type them."""
    return shlex.join(map(str, words))
