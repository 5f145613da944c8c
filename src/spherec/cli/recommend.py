"""`spherec recommend`, `similar`, `explain` and `info`: ask a model."""

import json
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from spherec.cli._output import AlsoJson, AsFormat, AsJson, choose_format, counting_bar, note, print_results, show
from spherec.data.ids import IdMap
from spherec.errors import ArgumentError, DataError, UnknownIdError

if TYPE_CHECKING:
    from spherec.recommender import CML

_USERS = "Which users"
_ITEMS = "Which items"

ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file from `spherec train`.")]
Count = Annotated[int, typer.Option("-k", help="Length of a list.")]
IndexPath = Annotated[
    Path | None,
    typer.Option(
        "--index",
        metavar="FILE",
        help="Index of the items from `spherec export MODEL -o FILE.usearch`: faster with hundreds of thousands of "
        "items, with nearly the same lists. Not used with --only.",
    ),
]


def recommend(
    model: ModelPath,
    users: Annotated[
        list[str] | None, typer.Argument(metavar="[USER]...", help="User ids, or @FILE with one id per line.")
    ] = None,
    k: Count = 10,
    everybody: Annotated[
        bool, typer.Option("--all", help="All users that the model knows; needs -o.", rich_help_panel=_USERS)
    ] = False,
    items: Annotated[
        str | None,
        typer.Option(
            help="Items of a user whom the model does not know: comma-separated, or @FILE.", rich_help_panel=_USERS
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(help="Items to choose from: comma-separated, or @FILE. Default: all.", rich_help_panel=_ITEMS),
    ] = None,
    exclude: Annotated[
        str | None,
        typer.Option(help="Items never to recommend: comma-separated, or @FILE.", rich_help_panel=_ITEMS),
    ] = None,
    with_seen: Annotated[
        bool, typer.Option("--with-seen", help="Include items that the user has already.", rich_help_panel=_ITEMS)
    ] = False,
    skip_unknown: Annotated[
        bool, typer.Option("--skip-unknown", help="Skip ids that the model does not know.", rich_help_panel=_USERS)
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Table to write: lists.parquet or lists.csv.")
    ] = None,
    index: IndexPath = None,
    format: AsFormat = "table",
    as_json: AlsoJson = False,
) -> None:
    """List the k nearest items of users, without those that they have already.

    For example: spherec recommend books.spherec 247752; all users: spherec recommend books.spherec --all -k 50 -o
    lists.parquet; a new user: spherec recommend books.spherec --items 0345339703,0439064872
    """
    from spherec.recommender import load
    from spherec.recommender.table_file import write_lists

    chosen = choose_format(format, as_json)
    if sum((bool(users), everybody, items is not None)) != 1:
        raise ArgumentError("say for whom: user ids, --all for all users, or --items for a new user; one of the three")
    if output is None and everybody:
        raise ArgumentError("--all needs -o, e.g. -o lists.parquet")
    if output is not None and items is not None:
        raise ArgumentError("--items prints one list; leave out -o, or redirect --format csv")
    loaded = load(model, index=index or False, device="cpu")
    known = loaded.data.item_ids
    remedy = "" if skip_unknown else "check the ids; --skip-unknown skips unknown ones"
    options: dict[str, Any] = {"exclude_seen": not with_seen, "exclude": _parse_list(exclude, known, remedy)}
    allowed = _parse_list(only, known, remedy)
    if items is not None:
        results = loaded.recommend_for(_parse_list(items, known, remedy), k, among=allowed, **options)
        print_results(results, chosen, ["user"], lambda _: "For a user with these items")
        return
    new = "for a new user give --items; --skip-unknown skips unknown ids"
    who = list(loaded.data.user_ids) if everybody else _parse_ids(users or [], loaded.data.user_ids, remedy and new)
    if output is not None:
        with counting_bar("ranking", "users") as progress:
            rows = write_lists(
                loaded, who, output, k, told=lambda done: progress(done, len(who)), items=allowed, **options
            )
        note(f"{rows:,} rows written to {output}")
        return
    results = loaded.recommend(who, k, items=allowed, **options)
    print_results(results, chosen, ["user"], lambda record: f"For user {record.user}")


def similar(
    model: ModelPath,
    ids: Annotated[list[str], typer.Argument(metavar="ITEM...", help="Item ids, or @FILE with one id per line.")],
    k: Count = 10,
    users: Annotated[bool, typer.Option("--users", help="Take the ids as users, and list similar users.")] = False,
    index: IndexPath = None,
    format: AsFormat = "table",
    as_json: AlsoJson = False,
) -> None:
    """List the items nearest to an item, or with --users the users nearest to a user.

    For example: spherec similar books.spherec 0345339703
    """
    from spherec.recommender import load

    chosen = choose_format(format, as_json)
    if users and index is not None:
        raise ArgumentError("--index is of items, and --users lists users; leave out one of them")
    loaded = load(model, index=index or False, device="cpu")
    if users:
        near_users = loaded.similar_users(_parse_ids(ids, loaded.data.user_ids), k)
        print_results(near_users, chosen, ["user"], lambda record: f"Like user {record.user}")
    else:
        near_items = loaded.similar_items(_parse_ids(ids, loaded.data.item_ids), k)
        print_results(near_items, chosen, ["item"], lambda record: f"Like {_title(loaded, record.item)}")


def explain(
    model: ModelPath,
    user: Annotated[str, typer.Argument(metavar="USER", help="User id.")],
    item: Annotated[str, typer.Argument(metavar="ITEM", help="Item id.")],
    k: Count = 5,
    format: AsFormat = "table",
    as_json: AlsoJson = False,
) -> None:
    """Explain why an item would be recommended to a user: list the user's own items that are nearest to it.

    For example: spherec explain books.spherec 247752 0345339703
    """
    from spherec.recommender import load

    chosen = choose_format(format, as_json)
    loaded = load(model, device="cpu")
    (who,), (what,) = _parse_ids([user], loaded.data.user_ids), _parse_ids([item], loaded.data.item_ids)
    title = f"Of the items of user {who}, the nearest to {_title(loaded, what)}"
    print_results(loaded.explain(who, what, k), chosen, ["user", "item"], lambda _: title)


def info(model: ModelPath, as_json: AsJson = False) -> None:
    """Show what a model file holds: users, items, how it was trained, how well it did."""
    from spherec import artifact
    from spherec.recommender.fitting import METRIC

    made = artifact.load(model)
    data, best = made.data, made.history.best
    facts = {
        "file": str(model),
        "bytes": model.stat().st_size,
        "format version": artifact.VERSION,
        "checksum": made.checksum,
        "users": data.n_users,
        "items": data.n_items,
        "items with a name": sum(map(bool, data.item_names or ())),
        "pairs": len(data),
        "epochs trained": len(made.history.epochs),
        "ended": made.ended,
        "best epoch": best and best.epoch,
        f"validation {METRIC}": best and best.metric,
    }
    config = made.config.to_dict()
    if as_json:
        typer.echo(json.dumps({name.replace(" ", "_"): fact for name, fact in facts.items()} | {"config": config}))
        return
    table = Table("", "", show_header=False, title=model.name, title_justify="left")
    for name, fact in facts.items():
        table.add_row(name, _format_fact(fact))
    table.add_section()
    for name, value in config.items():
        table.add_row(
            name, _as_python(value) if isinstance(value, dict) else "automatic" if value is None else str(value)
        )
    show(table)


def _parse_ids(texts: Iterable[str], known: IdMap, remedy: str = "check the id") -> list[Hashable]:
    """Return the known ids that texts stand for; @FILE is a file with one id per line, and ids may be numbers.

    `remedy` says what to do about an unknown id; where it is empty, unknown ids are skipped.
    """
    words: list[str] = []
    for text in texts:
        words += _lines(Path(text[1:])) if text.startswith("@") and text not in known else [text]
    ids: list[Hashable] = [*words]
    if any(word not in known for word in words):
        by_text = {str(id_): id_ for id_ in known}
        ids = [by_text.get(word, word) for word in words]
    if not remedy:
        return [id_ for id_ in ids if id_ in known]
    try:
        known.index_of(ids)
    except UnknownIdError as error:
        raise UnknownIdError(f"{error}; {remedy}") from None
    return ids


def _parse_list(text: str | None, known: IdMap, remedy: str) -> list[Hashable] | None:
    """Return the ids of an option: comma-separated, or @FILE."""
    if text is None:
        return None
    words = [text] if text.startswith("@") or text in known else [word.strip() for word in text.split(",")]
    return _parse_ids((word for word in words if word), known, remedy)


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; check the path") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text in UTF-8; save it as UTF-8, with one id per line") from None
    return [line.strip() for line in lines if line.strip()]


def _title(model: "CML", item: Hashable) -> str:
    """Return an item's id, followed by its name if it has one."""
    names, index = model.data.item_names, int(model.data.item_ids.index_of([item])[0])
    return f"{item} ({names[index]})" if names is not None and names[index] else str(item)


def _format_fact(fact: Any) -> str:
    match fact:
        case None:
            return "none"
        case int():
            return f"{fact:,}"
        case float():
            return f"{fact:.4f}"
    return str(fact)


def _as_python(part: dict[str, Any]) -> str:
    """Write a part of the config as a call in Python."""
    settings = ", ".join(f"{name}={value!r}" for name, value in part.items() if name != "kind")
    return f"{part['kind']}({settings})"
