"""`spherec data split`: what trains and what tests, as files."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, assert_never

import typer
from rich.table import Table

from spherec.cli.display import note, show
from spherec.cli.source import CUT, Source, takes_source
from spherec.data import splits
from spherec.data.files import atomic_folder, refuse_taken
from spherec.data.interactions import Interactions
from spherec.data.splits import Fold
from spherec.errors import ArgumentError

By = Literal["k-fold", "ratio", "leave-one-out", "leave-last-out", "time", "given"]


@takes_source
def split(
    source: Source,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write; it must not exist yet.")],
    by: Annotated[
        By,
        typer.Option(
            help="k-fold: each user's items dealt over --folds. ratio: a share --test of each user's items. "
            "leave-one-out, leave-last-out: a random or the latest item of each user. "
            "time: everything from --at on, or the latest share --test. given: DATA trains, --test-data tests."
        ),
    ] = "k-fold",
    folds: Annotated[int | None, typer.Option(help="For k-fold: how many. 4 if nothing is said.")] = None,
    test: Annotated[
        float | None, typer.Option(help="For ratio and time: the share to test on. 0.2 if nothing is said.")
    ] = None,
    at: Annotated[str | None, typer.Option(help="For time: a date such as 2004-06-01, or a number.")] = None,
    test_data: Annotated[str | None, typer.Option(help="For given: the file to test on, read like DATA.")] = None,
    seed: Annotated[int, typer.Option(help="Of the random choice.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Split into train.npz and test.npz in a folder; k-fold makes fold-0, fold-1 and so on in it."""
    _refuse_unused(by, {"--folds": folds, "--test": test, "--at": at, "--test-data": test_data})
    if by == "given" and (given := source.options_given(CUT)):
        raise ArgumentError(
            f"--by given takes both files as they are; leave out {', '.join(given)}, cut when preparing"
        )
    refuse_taken(output)
    data = source.load()
    share = 0.2 if test is None else test
    match by:
        case "k-fold":
            parts = {
                f"fold-{index}": fold
                for index, fold in enumerate(splits.k_fold(data, 4 if folds is None else folds, seed=seed))
            }
        case "ratio":
            parts = {".": splits.ratio(data, share, seed=seed)}
        case "leave-one-out":
            parts = {".": splits.leave_one_out(data, seed=seed)}
        case "leave-last-out":
            parts = {".": splits.leave_one_out(data, by="time", seed=seed)}
        case "time":
            parts = {".": splits.by_time(data, at=at) if at is not None else splits.by_time(data, test=share)}
        case "given":
            parts = {".": splits.given(data, _test_part(source, test_data))}
        case _ as never:
            assert_never(never)
    _write(parts, output)
    _report(parts, output, as_json=as_json)


def _refuse_unused(by: By, options: dict[str, object]) -> None:
    """What a split does not use would be ignored in silence."""
    used = {"k-fold": {"--folds"}, "ratio": {"--test"}, "time": {"--test", "--at"}, "given": {"--test-data"}}
    unused = [name for name, value in options.items() if value is not None and name not in used.get(by, set())]
    if unused:
        raise ArgumentError(f"--by {by} does not use {', '.join(unused)}; leave them out or choose another split")


def _test_part(source: Source, test_data: str | None) -> Interactions:
    if test_data is None:
        raise ArgumentError("--by given needs --test-data, the file to test on")
    return replace(source, data=test_data).load()


def _write(parts: dict[str, Fold], output: Path) -> None:
    with atomic_folder(output) as folder:
        for name, fold in parts.items():
            (folder / name).mkdir(exist_ok=True)
            fold.train.save(folder / name / "train.npz")
            fold.test.save(folder / name / "test.npz")


def _report(parts: dict[str, Fold], output: Path, *, as_json: bool) -> None:
    rows = [
        {"path": str(output / name / f"{role}.npz"), "pairs": len(part), "users": int((part.items_per_user > 0).sum())}
        for name, fold in parts.items()
        for role, part in (("train", fold.train), ("test", fold.test))
    ]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    table = Table("file", "pairs", "users with any")
    for row in rows:
        table.add_row(str(row["path"]), f"{row['pairs']:,}", f"{row['users']:,}")
    show(table)
    note("all parts share the same user and item indices")
