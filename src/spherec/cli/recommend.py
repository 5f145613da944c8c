"""`spherec recommend`, `similar`, `explain` and `info`: ask a model."""

import json
from collections.abc import Hashable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from spherec.artifact import Artifact
from spherec.cli._options import AsJson, Dial, Force, ModelPath, group, option, refuse_output
from spherec.cli._output import counting_bar, format_cell, grid, note, print_results, show
from spherec.data.ids import IdMap, spell_like
from spherec.data.input_files import read_text_file
from spherec.data.read.formats import list_files
from spherec.errors import ArgumentError, enumerate_ids
from spherec.evaluation.validation import VALIDATION_METRIC
from spherec.recommender import CML, Recommended, Results, load
from spherec.recommender.trained_model import UnknownUser

ListLength = Annotated[int, typer.Option("-k", metavar="N", help="Length of a list.")]
_for_whom = partial(option, panel="Which users")
_of_what = partial(option, panel="Which items")


@group
class Asking:
    """Options about how a model is asked for lists of items."""

    k: int = option("Length of a list.", "N", "-k", default=10)
    only: str | None = _of_what(
        "Items to choose from, such as those in stock: comma-separated, or @FILE. Default: all.", "IDS"
    )
    exclude: str | None = _of_what("Items never to list.", "IDS")
    diversity: float = _of_what(
        "From 0 to 1: how far the items of a list should be from each other.", "SHARE", default=0.0
    )
    index: list[str] | None = option(
        "Index of the items from 'spherec export', faster with hundreds of thousands of them. For indexes of parts, "
        "repeat it in their order, or give a pattern. Not used with --only.",
        "FILE",
    )
    as_json: AsJson = False

    def load(self, model: Path) -> CML:
        """Load a model to ask it on the CPU, through the index or those of all parts if some are given."""
        files = list_files(self.index) if self.index else []
        return load(model, index=files[0] if len(files) == 1 else files or False, device="cpu")

    def filters(self, known: IdMap) -> dict[str, Any]:
        """Return the filters as the library takes them."""
        ids = {"only": split_ids(self.only, known), "exclude": split_ids(self.exclude, known)}
        return {**ids, "diversity": self.diversity}


@group
class Filters(Asking):
    """Options about users and their lists."""

    everybody: bool = _for_whom("All users that the model knows; needs -o.", None, "--all", default=False)
    items: str | None = _for_whom("Items of a user whom the model need not know: comma-separated, or @FILE.", "IDS")
    unknown: UnknownUser = _for_whom(
        "Users whom the model does not know: error, skip, or popular, a list of the most popular items.",
        "WHAT",
        "--unknown",
        default="error",
    )
    with_seen: bool = _of_what("Include items that the user has already.", None, "--with-seen", default=False)
    mainstream: Dial = None

    def check(self, users: list[str], output: Path | None) -> None:
        """Raise an `ArgumentError` unless it is clear for whom to recommend, and to where."""
        if sum((bool(users), self.everybody, self.items is not None)) != 1:
            raise ArgumentError("say for whom: user ids, --all for all users, or --items for a new user; one of them")
        if self.everybody and output is None:
            raise ArgumentError("--all needs -o, e.g. -o lists.parquet")
        if self.items is not None and output is not None:
            raise ArgumentError("--items prints one list; leave out -o")

    def options(self, known: IdMap) -> dict[str, Any]:
        """Return the filters as the library takes them."""
        options = {"unknown": self.unknown, "exclude_seen": not self.with_seen, "mainstream": self.mainstream}
        return self.filters(known) | options


def recommend_command(
    model: ModelPath,
    users: list[str] | None = typer.Argument(None, metavar="USER", help="User ids, or @FILE with one id per line."),
    output: Path | None = option("Table to write: lists.parquet or lists.csv.", "FILE", "--output", "-o"),
    force: Force = False,
    *,
    filters: Filters,
) -> None:
    """Examples, for a user, for all users, for a user whom the model does not know, and with fewer bestsellers:

    - spherec recommend books.spherec 247752
    - spherec recommend books.spherec --all -k 50 -o lists.parquet
    - spherec recommend books.spherec --items 0345339703,0439064872
    - spherec recommend books.spherec 247752 --mainstream 0.2
    """
    filters.check(users or [], output)
    if output is not None:
        refuse_output(output, force)
    loaded, k, as_json = filters.load(model), filters.k, filters.as_json
    data, options = loaded.data, filters.options(loaded.data.item_ids)
    if filters.items is not None:
        results = loaded.recommend_for(split_ids(filters.items, data.item_ids) or (), k, **options)
        print_results(results, as_json, ["user"], lambda _: "For a user with these items")
        return _tell_fallback(results)
    who = None if filters.everybody else _read_ids(users or [], data.user_ids)
    if who and filters.unknown == "error":
        data.user_ids.index_of(who, role="user", remedy="for a new user give --items; --unknown popular or skip")
    if output is None:
        results = loaded.recommend(who, k, **options)
        print_results(results, as_json, ["user"], lambda record: f"For user {record.user}")
        return _tell_fallback(results)
    count = data.n_users if who is None else len(who)
    with counting_bar("ranking", "users") as progress:
        rows = loaded.recommend_to_file(output, who, k, **options, progress=lambda done: progress(done, count))
    return note(f"{rows:,} rows written to {output}")


def similar_command(
    model: ModelPath,
    ids: list[str] = typer.Argument(..., metavar="ITEM", help="Item ids, or @FILE with one id per line."),
    users: bool = option("Take the ids as users, and list similar users.", None, "--users", default=False),
    *,
    asking: Asking,
) -> None:
    """Example: spherec similar books.spherec 0345339703"""
    loaded, k, as_json = asking.load(model), asking.k, asking.as_json
    if users:
        if asking.only is not None or asking.exclude is not None or asking.diversity:
            raise ArgumentError("--only, --exclude and --diversity are about items; leave them out with --users")
        near_users = loaded.similar_users(_parse_ids("user", ids, loaded.data.user_ids), k)
        print_results(near_users, as_json, ["user"], lambda record: f"Users similar to {record.user}")
        return
    known = loaded.data.item_ids
    near = loaded.similar_items(_parse_ids("item", ids, known), k, **asking.filters(known))
    print_results(near, as_json, ["item"], lambda one: f"Items similar to {_title(loaded, one.item)}")


def explain_command(
    model: ModelPath,
    user: str = typer.Argument(..., metavar="USER", help="User id."),
    item: str = typer.Argument(..., metavar="ITEM", help="Item id."),
    k: ListLength = 5,
    as_json: AsJson = False,
) -> None:
    """Example: spherec explain books.spherec 247752 0345339703"""
    loaded = load(model, index=False, device="cpu")
    (who,) = _parse_ids("user", [user], loaded.data.user_ids)
    (what,) = _parse_ids("item", [item], loaded.data.item_ids)
    title = f"Items of user {who} that are nearest to {_title(loaded, what)}"
    print_results(loaded.explain(who, what, k), as_json, ["user", "item"], lambda _: title)


def info_command(model: ModelPath, as_json: AsJson = False) -> None:
    """Example: spherec info books.spherec"""
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
    if as_json:
        named = {name.replace(" ", "_"): fact for name, fact in facts.items()}
        typer.echo(json.dumps(named | {"config": made.config.to_dict()}))
        return
    rows = ((name, _format_fact(fact)) for name, fact in facts.items())
    show(grid(("", ""), rows, left=2, title=model.name, show_header=False))
    show("Settings, as 'spherec train --config' reads them:\n", made.config.to_toml())


def split_ids(text: str | None, known: IdMap) -> list[Hashable] | None:
    """Return the ids of an option: comma-separated, or @FILE."""
    if text is None:
        return None
    words = [text] if text.startswith("@") or text in known else [word.strip() for word in text.split(",")]
    return _read_ids(filter(None, words), known)


def _parse_ids(role: str, texts: Iterable[str], known: IdMap) -> list[Hashable]:
    """Return the ids that texts stand for, which must be known; `role` ("user", "item") is for the message."""
    return [known[at] for at in known.index_of(_read_ids(texts, known), role=role, remedy="check the id")]


def _read_ids(texts: Iterable[str], known: IdMap) -> list[Hashable]:
    """Return the ids that texts stand for, spelled like the known ones; @FILE is a file with one id per line."""
    words: list[str] = []
    for text in texts:
        is_file = text.startswith("@") and text not in known
        lines = read_text_file(Path(text[1:])).splitlines() if is_file else [text]
        words += [line.strip() for line in lines if line.strip()] if is_file else lines
    return spell_like(words, known.array)


def _tell_fallback(results: Results[Recommended]) -> None:
    """Say for whom the most popular items were listed."""
    if results.fallback:
        whom = "a user without items" if results.fallback == (None,) else enumerate_ids(results.fallback)
        note(f"the most popular items, because the model does not know them: {whom}")


def _title(model: CML, item: Hashable) -> str:
    """Return an item's id, followed by its name if it has one."""
    names, index = model.data.item_names, int(model.data.item_ids.index_of([item])[0])
    return f"{item} ({names[index]})" if names is not None and names[index] else str(item)


def _format_fact(fact: Any) -> str:
    if fact is None or isinstance(fact, bool):
        return {None: "none", True: "yes", False: "no"}[fact]
    if isinstance(fact, dict):
        return ", ".join(f"{name} ({size:,})" for name, size in fact.items())
    return f"{fact:,}" if isinstance(fact, int) else format_cell(fact)
