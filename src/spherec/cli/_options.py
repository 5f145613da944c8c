"""Options of commands, and groups of options that several commands share.

A group is a class whose fields are options, such as `Source`. A command takes it as a parameter: typer sees the fields
in its place, and the command receives the object.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, dataclass_transform

import typer
from typer.core import TyperCommand, TyperGroup

from spherec.errors import ArgumentError

_Group = TypeVar("_Group", bound=type[Any])


def option(
    help: str, metavar: str | None = None, *names: str, default: Any = None, panel: str | None = None, **more: Any
) -> Any:
    """Return an option, which a default of … requires; `names` are by default made from that of its parameter."""
    return typer.Option(default, *names, help=help, metavar=metavar, rich_help_panel=panel, **more)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def group(kind: _Group) -> _Group:
    """Make a class a group: a frozen dataclass whose fields are options, defaults included."""
    kind.parameters = dict(getattr(kind, "parameters", {}))
    for name, hint in inspect.get_annotations(kind).items():
        info = kind.__dict__.get(name, ...)
        kind.parameters[name] = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=info, annotation=hint)
        default = getattr(info, "default", info)
        if default is ...:
            delattr(kind, name)
        else:
            setattr(kind, name, default)
    return dataclass(frozen=True, kw_only=True)(kind)  # type: ignore[return-value]


Force = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file from 'spherec train'.")]
Device = Annotated[
    Literal["auto", "cpu", "cuda"], typer.Option(metavar="NAME", help="cpu, or cuda; auto takes it if it is there.")
]
Dial = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="Share of popularity that counts, for a model with reach: 1 gives the most popular lists, 0 counts none, "
        "below 0 lists the long tail. Default: as in the model.",
    ),
]


def show_plainly(parameters: list[Any]) -> list[Any]:
    """Return options and arguments that help shows without types, with defaults in their sentences."""
    for one in parameters:
        is_flag = getattr(one, "is_flag", False)
        if is_flag or one.param_type_name == "argument":
            one.display_type_rich = lambda ctx: None  # noqa: ARG005
        if is_flag:
            one.show_default = False
        elif getattr(one, "show_default", False) and one.help and one.default not in (None, [], ""):
            one.help, one.show_default = f"{one.help} Default: {one.default}.", False
    return parameters


class PlainCommand(TyperCommand):
    """A command with a plain help."""

    def get_params(self, context: Any) -> list[Any]:
        """Return the options and arguments, with --help."""
        return show_plainly(super().get_params(context))


class PlainGroup(TyperGroup):
    """Commands with a plain help."""

    def get_params(self, context: Any) -> list[Any]:
        """Return the options, with --help."""
        return show_plainly(super().get_params(context))


class Commands(typer.Typer):
    """Commands whose parameters may be groups."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(add_completion=False, rich_markup_mode="markdown", cls=PlainGroup, **settings)

    def add(self, name: str, command: Callable[..., None], help: str | None = None) -> None:
        """Add a command; its help is by default its docstring."""
        self.command(name, cls=PlainCommand, help=help)(_expand_groups(command))


def _expand_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that has the fields of its groups in their place, in its signature and annotations."""
    own = inspect.signature(command).parameters
    groups: dict[str, Any] = {name: each.annotation for name, each in own.items() if is_dataclass(each.annotation)}

    @wraps(command)
    def with_options(**given: Any) -> None:
        built = {name: kind(**{field: given.pop(field) for field in kind.parameters}) for name, kind in groups.items()}
        command(**built, **given)

    parameters: list[inspect.Parameter] = []
    for name, each in own.items():
        parameters += groups[name].parameters.values() if name in groups else [each.replace(kind=each.KEYWORD_ONLY)]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def refuse_output(output: Path, force: bool) -> None:
    """Raise an error if the output cannot be written, or is a file already that only --force replaces."""
    from spherec.data.output_files import refuse_unwritable  # numpy is slow to import

    refuse_unwritable(output)
    if not force and output.is_file():
        raise ArgumentError(f"{output} exists already; name another file, or replace it with --force")
