"""`spherec data prepare`, `stats` and `split`: from raw files to interactions, and a look at either."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import typer
from rich.table import Table

from spherec.cli._options import AsJson, Commands, Force, group, option, refuse_output
from spherec.cli._output import counting_bar, format_cell, grid, note, show
from spherec.cli._source import RawSource, Source
from spherec.data import splits
from spherec.data.cuts import Cut
from spherec.data.events import Step
from spherec.data.interactions import Interactions
from spherec.data.output_files import atomic_folder, refuse_taken
from spherec.data.read import read_events
from spherec.data.splits import Fold
from spherec.data.statistics import CountSummary, Statistics, statistics
from spherec.distributed.partitions import PartitionedInteractions, check_parts, save_partitions
from spherec.distributed.preparation import prepare_partitions
from spherec.errors import ArgumentError, DuplicatePairsWarning


def prepare_command(
    source: RawSource,
    output: Path | None = option("File to write, e.g. movies.npz; or a folder.", "FILE", "--output", "-o"),
    head: int | None = option("Show the first N events; write nothing.", "N", min=1),
    partitions: int | None = option(
        "Write a folder with the users divided among N files, for several processes: 48 serves 2, 3, 4, 6 and more. "
        "Raw files may then be larger than memory.",
        "N",
    ),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Read events, merge repeated pairs, cut, and write what all other commands load quickly.

    For example:

    - spherec data prepare ratings.csv --head 5
    - spherec data prepare ratings.csv --value-column rating --min-value 4 -o movies.npz
    - spherec data prepare 'events/*.parquet' --partitions 16 -o events.parts
    """
    if head is not None:
        if output is not None or partitions is not None or source.cut() != Cut():
            raise ArgumentError("--head shows events before any cut, and writes nothing; leave out -o and what cuts")
        _show_first_events(source, head, as_json=as_json)
        return
    if output is None:
        raise ArgumentError("-o is missing; name the file to write, or look at the first events with --head 10")
    data: Interactions | PartitionedInteractions
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DuplicatePairsWarning)  # the table of steps shows them
        if partitions is not None:
            data = _partition(source, output, partitions)
        else:
            refuse_output(output, force)
            data = source.load()
            data.save(output)
    _describe(data, output=str(output), as_json=as_json)


def _partition(source: RawSource, output: Path, partitions: int) -> PartitionedInteractions:
    """Read, merge and cut, and write a partitioned data set; raw files need not fit into memory together."""
    check_parts("partitions", partitions)
    refuse_taken(output)
    if source.kind is not None:
        save_partitions(source.load(), output, partitions)
        return PartitionedInteractions.open(output)
    names = source.read_names()  # first: it fails sooner
    with counting_bar(f"reading {source.name}", "bytes") as progress:
        reading = replace(source.reading(), progress=progress, report=note)
        made = prepare_partitions(source.data, reading, output, partitions, names=names)
    source.report_names(made.n_named_items, made.n_items)
    return PartitionedInteractions.open(output)


def stats_command(source: Source, as_json: AsJson = False) -> None:
    """Count users, items and pairs, and show how they are spread.

    Example: spherec data stats ratings.csv
    """
    _describe(source.load(), output=None, as_json=as_json)


@group
class SplitOptions:
    """Options that say how to split."""

    by: Literal["k-fold", "ratio", "leave-one-out", "leave-last-out", "time", "cold-items", "given"] = option(
        "k-fold deals each user's items over --folds; ratio takes a share of them; leave-one-out and leave-last-out "
        "take one, at random or the latest; time takes all from --at on, or the latest share; cold-items takes all "
        "pairs of a share of the items, and a share of each user's others; given takes --test.",
        "HOW",
        default="k-fold",
    )
    folds: int = option("Number of folds, for k-fold.", "N", default=4)
    test_share: float = option("Share to test on, for ratio, time, cold-items.", "SHARE", default=0.2)
    cold_share: float = option("Share of the items that are cold, for cold-items.", "SHARE", default=0.2)
    at: str | None = option("Date such as 2004-06-01, or a number, for time.", "TIME")
    test: list[str] | None = option("File to test on, read like DATA. May be repeated.", "DATA")
    seed: int = option("Random seed.", "N", default=0)

    def split(self, source: Source) -> dict[str, Fold]:
        """Return the parts of the data by their folders."""
        if self.by == "given":
            if not self.test:
                raise ArgumentError("--by given needs --test, the file to test on")
            return {".": splits.given(*source.load_parts(self.test))}
        data, share, seed = source.load(), self.test_share, self.seed
        match self.by:
            case "k-fold":
                folds = splits.k_fold(data, self.folds, seed=seed)
                return {f"fold-{index}": fold for index, fold in enumerate(folds)}
            case "ratio":
                fold = splits.ratio(data, share, seed=seed)
            case "time":
                fold = splits.by_time(data, at=self.at, test=share if self.at is None else None)
            case "cold-items":
                fold = splits.cold_items(data, self.cold_share, test=share, seed=seed)
            case _:
                fold = splits.leave_one_out(data, by="random" if self.by == "leave-one-out" else "time", seed=seed)
        return {".": fold}


def split_command(
    how: SplitOptions,
    source: Source,
    output: Path = option("Folder to write; it must not exist yet.", "FOLDER", "--output", "-o", default=...),
) -> None:
    """Split into train.npz and test.npz in a folder; k-fold makes fold-0, fold-1 and so on in it.

    Example: spherec data split movies.npz --by ratio --test-share 0.2 -o split
    """
    refuse_taken(output)
    parts: dict[str, Interactions] = {}
    for name, fold in how.split(source).items():
        parts |= {f"{name}/train.npz": fold.train, f"{name}/test.npz": fold.test}
        if isinstance(fold, splits.ColdFold):
            parts |= {f"{name}/cold.npz": fold.cold, f"{name}/warm.npz": fold.warm}
    with atomic_folder(output) as folder:
        for name, part in parts.items():
            (folder / name).parent.mkdir(exist_ok=True)
            part.save(folder / name)
    cells = ((str(output / name), f"{len(part):,}", f"{part.active_users:,}") for name, part in parts.items())
    show(grid(("file", "pairs", "users with any"), cells))
    note("all parts share the same user and item indices")


def _describe(data: Interactions | PartitionedInteractions, *, output: str | None, as_json: bool) -> None:
    """Print steps and statistics, as tables or JSON."""
    numbers = statistics(data)
    if as_json:
        described: dict[str, Any] = {"output": output} if output else {}
        typer.echo(json.dumps(described | asdict(numbers) | {"steps": [asdict(step) for step in data.steps]}))
        return
    if data.steps:
        show(_steps_table(data.steps))
    show(statistics_table(numbers))
    if output is not None:
        note(f"written to {output}")


def _show_first_events(source: RawSource, rows: int, *, as_json: bool) -> None:
    """Show the first events of a file, before repeated pairs are merged and anything is cut."""
    data = None if source.kind is None else source.load()
    reading = replace(source.reading(), limit=rows, report=note)
    events = read_events(source.data, reading) if data is None else data.events()
    users, items = events.users[:rows], events.items[:rows]
    columns: dict[str, list[Any]] = {"user": events.user_ids[users].tolist(), "item": events.item_ids[items].tolist()}
    for name, numbers in (("value", events.values), ("time", events.times)):
        if numbers is not None:
            columns[name] = numbers[:rows].tolist()
    if data is not None and data.item_names is not None:
        columns["name"] = [data.item_names[item] for item in items]
    records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if as_json:
        typer.echo(json.dumps(records, default=str))
        return
    rows_shown = ([format_cell(cell, ".15g") for cell in record.values()] for record in records)
    show(grid(list(columns), rows_shown, left=len(columns)))


def _steps_table(steps: Sequence[Step]) -> Table:
    """Show what each step left, and what it removed."""
    removed = [0, *(before.pairs - after.pairs for before, after in pairwise(steps))]
    rows = (
        (step.name, f"{step.users:,}", f"{step.items:,}", f"{step.pairs:,}", f"{gone:,}" if gone else "")
        for step, gone in zip(steps, removed, strict=False)
    )
    return grid(("step", "users", "items", "pairs", "removed"), rows, title="From raw rows to interactions")


def statistics_table(numbers: Statistics) -> Table:
    """Show the statistics."""
    counts = {name: f"{getattr(numbers, name):,}" for name in ("users", "items", "pairs")}
    spreads = {"items per user": numbers.items_per_user, "users per item": numbers.users_per_item}
    rows = counts | {"density": f"{numbers.density_percent:.3f} %"}
    rows |= {name: _spread(spread) for name, spread in spreads.items()}
    rows["pairs on the top 1 % of items"] = f"{numbers.top_percent_share:.1f} %"
    return grid(("", ""), rows.items(), title="Statistics", show_header=False)


def _spread(spread: CountSummary) -> str:
    return f"{spread.smallest:,} to {spread.largest:,}, median {spread.median:,g}"


data_commands = Commands(help="Prepare, describe, split and inspect interactions.", no_args_is_help=True)
data_commands.add("prepare", prepare_command)
data_commands.add("stats", stats_command)
data_commands.add("split", split_command)
