"""What `spherec compare` does once its options are read."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import compress
from pathlib import Path

import typer
from rich.table import Table

from spherec.cli.command import words_of, written
from spherec.cli.display import note, show
from spherec.cli.runs import folds_of, watched
from spherec.cli.source import CUT, Source
from spherec.compare.contenders import default_models
from spherec.compare.page import HEAD, ON_PAGE_ONLY, as_markdown, cells
from spherec.compare.record import Result
from spherec.compare.study import Comparison, Study
from spherec.compare.table import Line, as_csv, as_row, best_peer, lines
from spherec.data.files import atomic_write
from spherec.data.interactions import Interactions
from spherec.device import DeviceName, resolve
from spherec.errors import ArgumentError, MissingPackageError, TrainingError


@dataclass(frozen=True)
class Options:
    """Those that decide what is compared."""

    models: str | None
    folds: int | None
    only_folds: str | None
    test: str | None
    k: int
    trials: int
    validation: float
    seed: int

    def study(self) -> Study:
        """What they ask for."""
        names = default_models() if self.models is None else [name.strip() for name in self.models.split(",")]
        return Study(
            models=tuple(filter(None, names)),
            folds=4 if self.folds is None else self.folds,
            k=self.k,
            trials=self.trials,
            validation=self.validation,
            seed=self.seed,
        )


def run_comparison(
    source: Source,
    options: Options,
    context: typer.Context,
    *,
    device: DeviceName,
    workers: int | None,
    output: Path,
    name: str | None,
    plots: bool,
    as_json: bool,
) -> None:
    """Run what is not recorded yet; write and show what all that is recorded comes to."""
    study = options.study()
    if options.test is not None and (options.folds is not None or options.only_folds is not None):
        raise ArgumentError("--test is the one part to test on; leave out --folds and --only-folds")
    folds = folds_of(options.only_folds, study.folds if options.test is None else 1, "--only-folds")
    if workers is not None and workers < 1:
        raise ArgumentError(f"--workers must be a whole number >= 1, got {workers}")
    name = _name(source) if name is None else name
    if not name or Path(name).name != name:
        raise ArgumentError(f"--name must be a name for files, without folders, got {name!r}")
    for path in (output, output / name):
        if path.exists() and not path.is_dir():
            raise ArgumentError(f"{path} must be a folder, and it is a file; choose another --output or --name")
    for read in filter(None, (source.data, options.test)):
        if Path(read).resolve() in {(output / f"{name}{ending}").resolve() for ending in (".csv", ".md", ".png")}:
            raise ArgumentError(f"the results would be written over {read}; choose another --output or --name")
    where = resolve(device)
    data, test = _data(source, options.test)
    comparison = Comparison(study, data, output / name, test=test)
    before = len(comparison.results())
    try:
        with watched(comparison.runs_left(folds)) as watch:
            results = comparison.run(
                device=where, folds=folds, workers=workers, watch=watch, needs_all=options.models is not None
            )
    except KeyboardInterrupt:
        note("what was done is kept; the same command goes on from there")
        raise
    if before:
        kept = f"{before} of {len(results)} tests were recorded before in {output / name}"
        note(f"{kept}; another --output runs them anew")
    for model, error in comparison.failed.items():
        note(f"{model} is left out: {error}")
    if comparison.failed and not results:
        raise TrainingError("no model could be fit; name others with --models")
    table = lines(results, comparison.folder)
    sizes = {"users": data.n_users, "items": data.n_items, "pairs": len(data)}
    sizes |= {} if test is None else {"test pairs": len(test)}
    page = as_markdown(name, table, results, study, command=_command(context, table), sizes=sizes)
    _write(output, {f"{name}.csv": as_csv(table), f"{name}.md": page})
    is_drawn = plots and _draw(name, table, study.k, output)
    if as_json:
        typer.echo(json.dumps(_as_json(name, table, results, sizes)))
    else:
        _show(name, table, results, study)
    note(f"{output} holds {name}.csv, {name}.md{f', {name}.png' if is_drawn else ''} and, in {name}, the records")


def _name(source: Source) -> str:
    """As the data is called, without folders and endings."""
    return source.data if source.is_embedded else Path(source.data).name.split(".")[0]


def _data(source: Source, test: str | None) -> tuple[Interactions, Interactions | None]:
    if test is None:
        return source.load(), None
    if given := source.options_given(CUT):
        raise ArgumentError(f"--test takes both files as they are; leave out {', '.join(given)}, cut when preparing")
    return source.load(), replace(source, data=test).load()


def _command(context: typer.Context, table: Sequence[Line]) -> str:
    """The command that asks for all that is shown."""
    asked = {field.name for part in (Source, Options) for field in fields(part)} - {"models", "only_folds"} | {"name"}
    data, *options = words_of(context, asked, always={"k", "trials", "validation", "seed"})
    return written("spherec", "compare", data, "--models", ",".join(line.model for line in table), *options)


def _write(output: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        with atomic_write(output / name) as file:
            file.write(text.encode())


def _draw(name: str, table: Sequence[Line], k: int, output: Path) -> bool:
    try:
        from spherec.compare.plot import draw
    except MissingPackageError as error:
        note(f"{error}, or leave plots out with --no-plots")
        return False
    draw(name, table, k, output / f"{name}.png")
    return True


def _as_json(name: str, table: Sequence[Line], results: Sequence[Result], sizes: dict[str, int]) -> dict[str, object]:
    models = [
        {
            **as_row(line),
            "ours": line.is_ours,
            "folds": line.folds,
            "settings": {str(one.fold): one.settings for one in results if one.model == line.model},
        }
        for line in table
    ]
    return {"name": name, "data": sizes, "best_peer": best_peer(results), "models": models}


def _show(name: str, table: Sequence[Line], results: Sequence[Result], study: Study) -> None:
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
        note("no p where the values of single users are not beside the records, or there are too few users")
    if fewer := [f"{line.model} {line.folds}" for line in table if line.folds < folds]:
        note(f"fewer folds than {folds}: {', '.join(fewer)}")
