"""`spherec compare`: our models and the models that a user might take instead, on the user's data."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from spherec.cli._output import AsJson, note, show
from spherec.cli._runs import check_workers, parse_folds, runs_bar
from spherec.cli._settings import RUN, Device, refuse_overwriting
from spherec.cli._source import CUT, Source, takes_source
from spherec.data.files import atomic_write
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, MissingPackageError, TrainingError

if TYPE_CHECKING:
    from spherec.compare.record import Result
    from spherec.compare.study import Study
    from spherec.compare.table import Line


@takes_source
def compare(
    source: Source,
    models: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated models: presets of ours (see `spherec presets`) and the peers ease, als, bpr, knn, "
            "most-popular. als, bpr and knn need the package implicit. Default: our main presets and all peers."
        ),
    ] = None,
    folds: Annotated[
        int | None, typer.Option(help="Number of parts that each user's items are dealt over. Default: 4.")
    ] = None,
    only_folds: Annotated[
        str | None, typer.Option(help="Comma-separated folds to run, e.g. 0,1. Default: all.")
    ] = None,
    test: Annotated[
        str | None, typer.Option(help="File to test on, read like DATA, instead of folds; DATA is then for training.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Length of the lists.")] = 50,
    trials: Annotated[int, typer.Option(help="Settings to try for each model on each fold, its defaults first.")] = 10,
    validation: Annotated[
        float, typer.Option(help="Share of each user's training items on which settings are chosen.")
    ] = 0.05,
    seed: Annotated[int, typer.Option(help="Random seed of the split, of the settings and of the models.")] = 0,
    device: Device = "auto",
    workers: Annotated[
        int | None,
        typer.Option(help="Trials of our models at once. Default: 8 on a GPU, else 1.", rich_help_panel=RUN),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the results.")] = Path("results/compare"),
    name: Annotated[
        str | None, typer.Option(help="Name of the files in that folder. Default: the name of the data.")
    ] = None,
    plots: Annotated[bool, typer.Option("--plots/--no-plots", help="Draw a plot; needs matplotlib.")] = True,
    as_json: AsJson = False,
) -> None:
    """Train and test our models and their peers alike: which is best for your data, and at what cost?

    Each model is tried with the same number of settings on a validation part of the training items. With the best of
    them it is trained on all training items and tested once. What is recorded in the folder is not run again: stop and
    start at will, or run some models here and others on another machine. When nothing is left to run, the table is
    printed at once.

    For example: spherec compare book-crossing --models two-stage,ease,als --trials 5
    """
    from spherec.compare.contenders import default_models
    from spherec.compare.page import as_markdown
    from spherec.compare.study import Comparison, Study
    from spherec.compare.table import as_csv, lines
    from spherec.device import resolve

    named = default_models() if models is None else [model.strip() for model in models.split(",")]
    study = Study(
        models=tuple(filter(None, named)),
        folds=4 if folds is None else folds,
        k=k,
        trials=trials,
        validation=validation,
        seed=seed,
    )
    if test is not None and (folds is not None or only_folds is not None):
        raise ArgumentError("--test is the one part to test on; leave out --folds and --only-folds")
    chosen = parse_folds(only_folds, study.folds if test is None else 1)
    check_workers(workers)
    name = _name_of(source) if name is None else name
    if not name or Path(name).name != name:
        raise ArgumentError(f"--name must be a name for files, without folders, got {name!r}")
    for path in (output, output / name):
        if path.exists() and not path.is_dir():
            raise ArgumentError(f"{path} must be a folder, and it is a file; choose another --output or --name")
    for ending in (".csv", ".md", ".png"):
        refuse_overwriting({"--output": output / f"{name}{ending}"}, (source.data, test))
    where = resolve(device)
    data, test_part = _load(source, test)
    comparison = Comparison(study, data, output / name, test=test_part)
    before = len(comparison.results())
    try:
        with runs_bar(comparison.runs_left(chosen)) as watch:
            results = comparison.run(
                device=where, folds=chosen, workers=workers, watch=watch, needs_all=models is not None
            )
    except KeyboardInterrupt:
        note("finished work is saved; rerun the same command to continue")
        raise
    if before:
        kept = f"{before} of {len(results)} tests were recorded before in {output / name}"
        note(f"{kept}; choose another --output to run them again")
    for model, error in comparison.failed.items():
        note(f"{model} is left out: {error}")
    if comparison.failed and not results:
        raise TrainingError("no model could be fit; name others with --models")
    table = lines(results, comparison.folder)
    sizes = {"users": data.n_users, "items": data.n_items, "pairs": len(data)}
    sizes |= {} if test_part is None else {"test pairs": len(test_part)}
    options = {
        "--folds": folds,
        "--test": test,
        "-k": k,
        "--trials": trials,
        "--validation": validation,
        "--seed": seed,
        "--name": None if name == _name_of(source) else name,
    }
    page = as_markdown(name, table, results, study, command=_command(source, table, options), sizes=sizes)
    for file_name, text in {f"{name}.csv": as_csv(table), f"{name}.md": page}.items():
        with atomic_write(output / file_name) as file:
            file.write(text.encode())
    is_drawn = plots and _draw(name, table, study.k, output)
    if as_json:
        typer.echo(json.dumps(_as_json(name, table, results, sizes)))
    else:
        _show(name, table, results, study)
    note(f"{output} holds {name}.csv, {name}.md{f', {name}.png' if is_drawn else ''} and, in {name}, the records")


def _name_of(source: Source) -> str:
    """Return the name of the data, without folders and endings."""
    return source.data if source.is_embedded else Path(source.data).name.split(".")[0]


def _load(source: Source, test: str | None) -> tuple[Interactions, Interactions | None]:
    """Load what trains and, if there is a file for it, what tests."""
    if test is None:
        return source.load(), None
    if given := source.options_given(CUT):
        raise ArgumentError(f"--test takes both files as they are; leave out {', '.join(given)}, cut when preparing")
    return source.load(), replace(source, data=test).load()


def _command(source: Source, table: "Sequence[Line]", options: Mapping[str, object]) -> str:
    """Return the command that asks for all that the table shows."""
    words = ["spherec", "compare", *source.words(), "--models", ",".join(line.model for line in table)]
    for option, value in options.items():
        words += [] if value is None else [option, str(value)]
    return shlex.join(words)


def _draw(name: str, table: "Sequence[Line]", k: int, output: Path) -> bool:
    try:
        from spherec.compare.plot import draw
    except MissingPackageError as error:
        note(f"{error}, or leave plots out with --no-plots")
        return False
    draw(name, table, k, output / f"{name}.png")
    return True


def _as_json(
    name: str, table: "Sequence[Line]", results: "Sequence[Result]", sizes: dict[str, int]
) -> dict[str, object]:
    from spherec.compare.table import as_row, best_peer

    models = [
        {
            **as_row(line),
            "ours": line.is_ours,
            "folds": line.folds,
            "settings": {str(result.fold): result.settings for result in results if result.model == line.model},
        }
        for line in table
    ]
    return {"name": name, "data": sizes, "best_peer": best_peer(results), "models": models}


def _show(name: str, table: "Sequence[Line]", results: "Sequence[Result]", study: "Study") -> None:
    from spherec.compare.page import HEAD, ON_PAGE_ONLY, cells
    from spherec.compare.table import best_peer

    folds = max((line.folds for line in table), default=0)
    over = f"mean ± deviation over {folds} folds" if folds > 1 else "one split"
    title = f"{name}: lists of {study.k}, {over}"
    narrow = [column not in ON_PAGE_ONLY for column in HEAD]
    shown = Table(*compress(HEAD, narrow), title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    for line in table:
        close = [cell.replace(" ", "") for cell in compress(cells(line), narrow)]  # so that 80 characters hold it
        shown.add_row(*close, style="bold" if line.is_ours else None)
    for column in shown.columns:
        column.no_wrap, column.justify = True, "right"
    shown.columns[0].justify = "left"
    show(shown)
    peer = best_peer(results)
    note("ours in bold; MMR: median popularity of what is recommended; fit s, peak MB: of the last fit alone")
    if peer is not None:
        note(f"p NDCG: paired t-test over users against {peer}, the best peer; the page has that of MAP, too")
    if any(line.p_value is None and line.model != peer for line in table):
        note("no p where the values of single users are not next to the records, or there are too few users")
    if fewer := [f"{line.model} {line.folds}" for line in table if line.folds < folds]:
        note(f"fewer folds than {folds}: {', '.join(fewer)}")
