"""`spherec recommend`, `similar`, `explain` and `info`: ask a model."""

import json
from collections.abc import Hashable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from spherec.cli._output import AlsoJson, AsFormat, AsJson, choose_format, counting_bar, note, print_results, show
from spherec.cli._settings import Dial, Force, ModelPath, refuse_existing
from spherec.data.ids import IdMap, Unknown, spell_like
from spherec.data.input_files import read_text_file
from spherec.data.output_files import refuse_unwritable
from spherec.data.read.formats import list_files
from spherec.errors import ArgumentError

if TYPE_CHECKING:
    from spherec.recommender import CML

_LARGEST_LIST = 1 << 30  # bytes of a file of ids

ListLength = Annotated[int, typer.Option("-k", metavar="N", help="Length of a list.")]
IndexFilesGiven = Annotated[
    list[str] | None,
    typer.Option(
        "--index",
        metavar="FILE",
        help="Index of the items from 'spherec export', faster with hundreds of thousands of them. For indexes of "
        "parts, repeat it in their order, or give a pattern. Not used with --only.",
    ),
]
_for_whom = partial(typer.Option, rich_help_panel="Which users")
_of_what = partial(typer.Option, rich_help_panel="Which items")


def recommend_command(
    model: ModelPath,
    users: Annotated[
        list[str] | None, typer.Argument(metavar="USER", help="User ids, or @FILE with one id per line.")
    ] = None,
    k: ListLength = 10,
    everybody: Annotated[bool, _for_whom("--all", help="All users that the model knows; needs -o.")] = False,
    items: Annotated[
        str | None,
        _for_whom(metavar="IDS", help="Items of a user whom the model need not know: comma-separated, or @FILE."),
    ] = None,
    skip_unknown: Annotated[bool, _for_whom("--skip-unknown", help="Skip ids that the model does not know.")] = False,
    only: Annotated[
        str | None, _of_what(metavar="IDS", help="Items to choose from: comma-separated, or @FILE. Default: all.")
    ] = None,
    exclude: Annotated[str | None, _of_what(metavar="IDS", help="Items never to recommend.")] = None,
    with_seen: Annotated[bool, _of_what("--with-seen", help="Include items that the user has already.")] = False,
    mainstream: Dial = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Table to write: lists.parquet or lists.csv.")
    ] = None,
    force: Force = False,
    index: IndexFilesGiven = None,
    format: AsFormat = "table",
    as_json: AlsoJson = False,
) -> None:
    """List the k nearest items of users, without those that they have already.

    Examples, for a user, for all users, and for a user whom the model does not know:

    - spherec recommend books.spherec 247752
    - spherec recommend books.spherec --all -k 50 -o lists.parquet
    - spherec recommend books.spherec --items 0345339703,0439064872

    With fewer bestsellers, if the model has reach (as --preset accurate):

    - spherec recommend books.spherec 247752 --mainstream 0.2
    """
    chosen = choose_format(format, as_json)
    if sum((bool(users), everybody, items is not None)) != 1:
        raise ArgumentError("say for whom: user ids, --all for all users, or --items for a new user; one of the three")
    if output is None and everybody:
        raise ArgumentError("--all needs -o, e.g. -o lists.parquet")
    if output is not None:
        if items is not None:
            raise ArgumentError("--items prints one list; leave out -o, or redirect --format csv")
        refuse_unwritable(output)
        refuse_existing(output, force)
    loaded = _load(model, index)
    unknown: Unknown = "skip" if skip_unknown else "error"
    parse = partial(_parse_list, known=loaded.data.item_ids, unknown=unknown)
    filters: dict[str, Any] = {"only": parse(only), "exclude": parse(exclude)}
    filters |= {"exclude_seen": not with_seen, "mainstream": mainstream}
    if items is not None:
        results = loaded.recommend_for(parse(items) or (), k, **filters)
        print_results(results, chosen, ["user"], lambda _: "For a user with these items")
        return
    remedy = "for a new user give --items; --skip-unknown skips unknown ids"
    who = None if everybody else _parse_ids("user", users or [], loaded.data.user_ids, unknown, remedy)
    if output is None:
        results = loaded.recommend(who, k, **filters)
        print_results(results, chosen, ["user"], lambda record: f"For user {record.user}")
        return
    count = loaded.data.n_users if who is None else len(who)
    with counting_bar("ranking", "users") as progress:
        rows = loaded.recommend_to_file(output, who, k, **filters, progress=lambda done: progress(done, count))
    note(f"{rows:,} rows written to {output}")


def similar_command(
    model: ModelPath,
    ids: Annotated[list[str], typer.Argument(metavar="ITEM", help="Item ids, or @FILE with one id per line.")],
    k: ListLength = 10,
    users: Annotated[bool, typer.Option("--users", help="Take the ids as users, and list similar users.")] = False,
    index: IndexFilesGiven = None,
    format: AsFormat = "table",
    as_json: AlsoJson = False,
) -> None:
    """List the items nearest to an item, or with --users the users nearest to a user.

    For example:

    - spherec similar books.spherec 0345339703
    """
    chosen = choose_format(format, as_json)
    if users and index:
        raise ArgumentError("--index is of items, and --users lists users; leave out one of them")
    loaded = _load(model, index)
    if users:
        near_users = loaded.similar_users(_parse_ids("user", ids, loaded.data.user_ids), k)
        print_results(near_users, chosen, ["user"], lambda record: f"Users similar to {record.user}")
    else:
        near_items = loaded.similar_items(_parse_ids("item", ids, loaded.data.item_ids), k)
        print_results(near_items, chosen, ["item"], lambda record: f"Items similar to {_title(loaded, record.item)}")


def explain_command(
    model: ModelPath,
    user: Annotated[str, typer.Argument(metavar="USER", help="User id.")],
    item: Annotated[str, typer.Argument(metavar="ITEM", help="Item id.")],
    k: ListLength = 5,
    format: AsFormat = "table",
    as_json: AlsoJson = False,
) -> None:
    """Explain why an item would be recommended to a user: list the user's own items that are nearest to it.

    For example:

    - spherec explain books.spherec 247752 0345339703
    """
    chosen, loaded = choose_format(format, as_json), _load(model, None)
    (who,) = _parse_ids("user", [user], loaded.data.user_ids)
    (what,) = _parse_ids("item", [item], loaded.data.item_ids)
    title = f"Items of user {who} that are nearest to {_title(loaded, what)}"
    print_results(loaded.explain(who, what, k), chosen, ["user", "item"], lambda _: title)


def info_command(model: ModelPath, as_json: AsJson = False) -> None:
    """Show what a model file holds: users, items, how it was trained, how well it did."""
    from spherec.artifact import Artifact
    from spherec.evaluation.validation import VALIDATION_METRIC

    made = Artifact.load(model)
    data, best, features = made.data, made.history.best, made.features
    facts = {
        "file": str(model),
        "bytes": sum(model.with_name(name).stat().st_size for name in (model.name, *made.shards)),
        "shards": len(made.shards) or None,
        "checksum": made.checksum,
        "users": data.n_users,
        "items": data.n_items,
        "items with a name": sum(map(bool, data.item_names or ())),
        "pairs": len(data),
        "pairs weighed": data.weights is not None,
        "item features": features and features.n_features,
        "feature columns": features and features.sizes,
        "items with features": features and int(features.known.sum()),
        "epochs trained": len(made.history.epochs),
        "ended": made.ended,
        "best epoch": best and best.epoch,
        f"validation {VALIDATION_METRIC}": best and best.metric,
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
        table.add_row(name, _as_python(value) if isinstance(value, dict) else _format_fact(value, "automatic"))
    show(table)


def _load(model: Path, index: list[str] | None) -> "CML":
    """Load a model to ask it on the CPU, through the index or those of all parts if some are given."""
    from spherec.recommender import load

    files = list_files(index) if index else []
    return load(model, index=files[0] if len(files) == 1 else files or False, device="cpu")


def _parse_ids(
    role: str, texts: Iterable[str], known: IdMap, unknown: Unknown = "error", remedy: str = "check the id"
) -> list[Hashable]:
    """Return the known ids that texts stand for; @FILE is a file with one id per line.

    `role` ("user", "item") and `remedy`, which says what to do about an unknown id, are for the message.
    """
    words: list[str] = []
    for text in texts:
        words += _lines(Path(text[1:])) if text.startswith("@") and text not in known else [text]
    indices = known.look_up(spell_like(words, known.array), role=role, unknown=unknown, remedy=remedy)
    return [known[index] for index in indices]


def _parse_list(text: str | None, known: IdMap, unknown: Unknown) -> list[Hashable] | None:
    """Return the ids of an option: comma-separated, or @FILE."""
    if text is None:
        return None
    words = [text] if text.startswith("@") or text in known else [word.strip() for word in text.split(",")]
    remedy = "check the ids; --skip-unknown skips unknown ones"
    return _parse_ids("item", filter(None, words), known, unknown, remedy)


def _lines(path: Path) -> list[str]:
    lines = read_text_file(path, _LARGEST_LIST).splitlines()
    return [line.strip() for line in lines if line.strip()]


def _title(model: "CML", item: Hashable) -> str:
    """Return an item's id, followed by its name if it has one."""
    names, index = model.data.item_names, int(model.data.item_ids.index_of([item])[0])
    return f"{item} ({names[index]})" if names is not None and names[index] else str(item)


def _format_fact(fact: Any, nothing: str = "none") -> str:
    match fact:
        case None:
            return nothing
        case bool():
            return "yes" if fact else "no"
        case dict():
            return ", ".join(f"{name} ({size:,})" for name, size in fact.items())
        case int():
            return f"{fact:,}"
        case float():
            return f"{fact:.4f}"
    return str(fact)


def _as_python(part: dict[str, Any]) -> str:
    """Write a part of the config as a call in Python."""
    settings = ", ".join(f"{name}={value!r}" for name, value in part.items() if name != "kind")
    return f"{part['kind']}({settings})"
