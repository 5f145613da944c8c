"""What the commands that ask a model do once their options are read. Apart from them, because it brings torch."""

import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from spherec import artifact
from spherec.cli.asking import Format, ids_from, listed, print_answer
from spherec.cli.display import note, show, users_bar
from spherec.errors import ArgumentError
from spherec.recommender import CML, load
from spherec.recommender.fitting import METRIC
from spherec.recommender.table_file import write_lists


def run_recommend(
    path: Path,
    users: list[str],
    k: int,
    *,
    everybody: bool,
    items: str | None,
    only: str | None,
    exclude: str | None,
    with_seen: bool,
    skip_unknown: bool,
    output: Path | None,
    index: Path | None,
    format: Format,
) -> None:
    """Print or write the lists of these users, of everybody, or of somebody who has these items."""
    asked = {"user ids": bool(users), "--all": everybody, "--items": items is not None}
    if sum(asked.values()) != 1:
        raise ArgumentError(
            "say for whom: user ids, --all for everybody, or --items for somebody new; one of the three"
        )
    if output is None and everybody:
        raise ArgumentError("--all needs -o, e.g. -o lists.parquet")
    if output is not None and items is not None:
        raise ArgumentError("--items prints one list; leave out -o, or redirect --format csv")
    model = load(path, index=index or False, device="cpu")
    known = model.data.item_ids
    new = "for somebody new give --items; --skip-unknown passes over unknown ids"
    remedy = "" if skip_unknown else "check the ids; --skip-unknown passes over unknown ones"
    options: dict[str, Any] = {"exclude_seen": not with_seen, "exclude": listed(exclude, known, remedy)}
    allowed = listed(only, known, remedy)
    if items is not None:
        answer = model.recommend_for(listed(items, known, remedy), k, among=allowed, **options)
        print_answer(answer, format, ["user"], lambda _: "For somebody with these items")
        return
    who = list(model.data.user_ids) if everybody else ids_from(users, model.data.user_ids, remedy and new)
    if output is not None:
        with users_bar(len(who)) as told:
            rows = write_lists(model, who, output, k, told=told, items=allowed, **options)
        note(f"{rows:,} rows written to {output}")
        return
    answer = model.recommend(who, k, items=allowed, **options)
    print_answer(answer, format, ["user"], lambda record: f"For user {record.user}")


def run_similar(path: Path, ids: list[str], k: int, *, users: bool, index: Path | None, format: Format) -> None:
    """Print what lies nearest to these items or users."""
    if users and index is not None:
        raise ArgumentError("--index is of items, and --users lists users; leave out one of them")
    model = load(path, index=index or False, device="cpu")
    if users:
        found = model.similar_users(ids_from(ids, model.data.user_ids), k)
        print_answer(found, format, ["user"], lambda record: f"Like user {record.user}")
    else:
        like = model.similar_items(ids_from(ids, model.data.item_ids), k)
        print_answer(like, format, ["item"], lambda record: f"Like {_titled(model, record.item)}")


def run_explain(path: Path, user: str, item: str, k: int, *, format: Format) -> None:
    """Print which of the user's items lie nearest to the item."""
    model = load(path, device="cpu")
    (who,), (what,) = ids_from([user], model.data.user_ids), ids_from([item], model.data.item_ids)
    reasons = model.explain(who, what, k)
    title = f"Of the items of user {who}, the nearest to {_titled(model, what)}"
    print_answer(reasons, format, ["user", "item"], lambda _: title)


def run_info(path: Path, *, as_json: bool) -> None:
    """Print what the file holds."""
    made = artifact.load(path)
    data, best = made.data, made.history.best
    facts = {
        "file": str(path),
        "bytes": path.stat().st_size,
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
    table = Table("", "", show_header=False, title=path.name, title_justify="left")
    for name, fact in facts.items():
        table.add_row(name, _shown(fact))
    table.add_section()
    for name, value in config.items():
        table.add_row(name, _part(value) if isinstance(value, dict) else "automatic" if value is None else str(value))
    show(table)


def _shown(fact: Any) -> str:
    match fact:
        case None:
            return "none"
        case int():
            return f"{fact:,}"
        case float():
            return f"{fact:.4f}"
    return str(fact)


def _part(part: dict[str, Any]) -> str:
    """A part of the config as it is written in Python."""
    settings = ", ".join(f"{name}={value!r}" for name, value in part.items() if name != "kind")
    return f"{part['kind']}({settings})"


def _titled(model: CML, item: Hashable) -> str:
    """An item's id, with its name where that is known."""
    names, index = model.data.item_names, int(model.data.item_ids.index_of([item])[0])
    return f"{item} ({names[index]})" if names is not None and names[index] else str(item)
