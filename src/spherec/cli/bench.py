"""`spherec bench`: speed on this machine, compared with a plain implementation or with other models."""

import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from spherec.cli._output import AsJson, note, show
from spherec.cli._settings import Device
from spherec.cli._source import Source
from spherec.data.output_files import atomic_write, refuse_unwritable
from spherec.errors import MissingPackageError

if TYPE_CHECKING:
    import torch

    from spherec.bench import Report
    from spherec.bench.report import SpeedPair
    from spherec.bench.time_to_quality import TimeToQuality

_UNKNOWN = "–"
_QUALITY = "Time to quality"


def bench_command(
    data: Annotated[str, typer.Option(help="'book-crossing' (the embedded data set) or a prepared file.")] = (
        "book-crossing"
    ),
    time_to_quality: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="Measure something else: train models on DATA, a prepared file or 'book-crossing', and report how "
            "many seconds each takes until its lists are as good as those of EASE, a simple and fast model. With -o, "
            "the report has a plot of NDCG over seconds.",
            rich_help_panel=_QUALITY,
        ),
    ] = None,
    models: Annotated[
        str,
        typer.Option(
            help="Comma-separated models: those of 'spherec compare', and fast-1024, a larger variant of fast. "
            "Default: fast,fast-1024,accurate,two-stage,ease,als.",
            show_default=False,
            rich_help_panel=_QUALITY,
        ),
    ] = "fast,fast-1024,accurate,two-stage,ease,als",
    device: Device = "auto",
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Take fewer and shorter measurements, in half a minute; shorter training."),
    ] = False,
    seconds: Annotated[
        float | None,
        typer.Option(
            help="Seconds of each measurement; the median of several is reported. Default: 0.5, or 0.1 with --quick."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="JSON file for the report, in addition to what is printed.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure training steps, lists, reading and loading, alternating with a plain torch and NumPy implementation.

    Takes a few minutes on two cores; nothing else should be running.

    For example:

    - spherec bench --quick

    - spherec bench --time-to-quality ratings.npz -o speed.json
    """
    from spherec.bench import QUICK, BenchmarkPlan, measure
    from spherec.device import resolve

    where = resolve(device)
    if time_to_quality is not None:
        _bench_quality(time_to_quality, models.split(","), where, quick=quick, output=output, as_json=as_json)
        return
    plan = QUICK if quick else BenchmarkPlan()
    plan = plan if seconds is None else replace(plan, seconds=seconds)
    if output is not None:
        refuse_unwritable(output)
    began = time.perf_counter()
    interactions = Source(data=[data]).load(by_options=False)
    loaded_in = time.perf_counter() - began
    report = measure(interactions, plan, device=where, loaded_in=loaded_in, on_progress=note)
    _write(report.to_dict(), output, as_json=as_json)
    if as_json:
        return
    show(_steps(report), _others(report), _machine(report))
    if quick:
        note("a quick look: few and short measurements; without --quick they are steadier")


def _write(record: dict[str, Any], output: Path | None, *, as_json: bool) -> None:
    """Write the record to the output, and print it if it is asked for as JSON."""
    text = json.dumps(record, indent=2)
    if output is not None:
        with atomic_write(output) as file:
            file.write(f"{text}\n".encode())
    if as_json:
        typer.echo(text)


def _bench_quality(
    data: str, models: list[str], device: "torch.device", *, quick: bool, output: Path | None, as_json: bool
) -> None:
    from spherec.bench.time_to_quality import QualityPlan, measure_time_to_quality

    plot = None if output is None else output.with_suffix(".png")
    for path in (output, plot):
        if path is not None:
            refuse_unwritable(path)
    plan = QualityPlan(lengths=(1 / 90, 1 / 30, 1 / 10), trials=1) if quick else QualityPlan()
    load = partial(Source(data=[data]).load, by_options=False)
    result = measure_time_to_quality(load, models, plan, device=device, on_progress=note)
    _write(result.to_dict(), output, as_json=as_json)
    if plot is not None:
        try:
            from spherec.lab.plots import plot_time_to_quality

            points = [(run.model, run.seconds, run.ndcg) for run in result.runs]
            plot_time_to_quality(Path(data).stem, points, result.target, result.plan.k, plot)
        except MissingPackageError as error:
            note(f"no plot: {error}")
    if not as_json:
        show(_quality(result), _until(result))
    if quick:
        note("a quick look: few epochs, and baselines with their default settings")


def _quality(result: "TimeToQuality") -> Table:
    title = f"{result.data['users']:,} users, {result.data['items']:,} items, on {result.environment['device']}"
    table = Table("model", "settings", title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("seconds", "× ALS", "MB", f"NDCG@{result.plan.k}, %", f"MMR@{result.plan.k}"):
        table.add_column(name, justify="right", no_wrap=True)
    for run in result.runs:
        settings = ", ".join(f"{name} {value}" for name, value in run.settings.items())
        table.add_row(
            run.model,
            settings,
            f"{run.seconds:,.1f}",
            _UNKNOWN if result.als_seconds is None else f"{run.seconds / result.als_seconds:,.1f}",
            _mb(run.peak_mb),
            f"{100 * run.ndcg:.2f}",
            f"{run.mmr:,.0f}",
        )
    table.caption = (
        "seconds: from the prepared file to lists; × ALS: seconds divided by those of ALS; MB: memory at the peak, "
        "beyond the data; NDCG: how good the lists are; MMR: the median popularity of what is recommended"
    )
    table.caption_justify = "left"
    return table


def _until(result: "TimeToQuality") -> Table | str:
    from spherec.bench.time_to_quality import SHARES

    if result.target is None:
        return "EASE was not fit, so there is no quality to reach."
    table = Table("seconds until", title="The fastest run that reaches a share of EASE's NDCG", title_justify="left")
    until = {share: result.seconds_until(share) for share in SHARES}
    for share in SHARES:
        table.add_column(f"{share:.0%}", justify="right")
    for model in until[SHARES[0]]:
        seconds = [until[share][model] for share in SHARES]
        table.add_row(model, *(_UNKNOWN if one is None else f"{one:,.1f}" for one in seconds))
    return table


def _steps(report: "Report") -> Table:
    title = f"Training steps, D = {report.steps[0].dim}, on {report.environment['device']}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("sampler-N-batch", no_wrap=True)
    for name in ("k/s", "plain", "times", "ms", "plain", "floor", "MB", "plain"):
        table.add_column(name, justify="right", no_wrap=True)
    for step in report.steps:
        speed, plain = step.speed.ours, step.speed.baseline
        table.add_row(
            f"{step.sampler}-{step.negatives}-{step.batch}",
            f"{speed.per_second / 1e3:,.0f}",
            f"{plain.per_second / 1e3:,.1f}" if plain else _UNKNOWN,
            _times(step.speed),
            f"{speed.ms_per_step:,.3f}",
            f"{plain.ms_per_step:,.1f}" if plain else _UNKNOWN,
            f"{step.floor_ms:,.3f}",
            _mb(step.peak_mb),
            _mb(step.baseline_peak_mb),
        )
    table.caption = (
        "k/s: thousand triplets a second; ms: of a step; MB: memory at the peak. plain: the same model written the "
        "obvious way. floor: how long what a step must move and multiply takes this machine"
    )
    table.caption_justify = "left"
    return table


def _others(report: "Report") -> Table:
    table = Table("", "spherec", "plain", "times", title="Around training", title_justify="left")
    ranking, reading, loading = report.ranking, report.reading, report.loading
    table.add_row(f"exact lists of {ranking.k}, users/s", *_speeds(ranking.speed))
    if isinstance(reading, str):
        table.add_row("reading a CSV", "skipped", "", "")
    else:
        table.add_row(f"reading a CSV of {reading.rows:,} rows, rows/s", *_speeds(reading.speed))
    table.add_section()
    table.add_row("import spherec, s", f"{loading.import_spherec:.2f}", "", "")
    imports = f"{loading.import_training:.2f}", f"{loading.import_torch:.2f}", ""
    table.add_row("import spherec.training, s (plain: torch)", *imports)
    if loading.data is not None:
        table.add_row("loading the data set, s", f"{loading.data:.2f}", "", "")
    for column in table.columns[1:]:
        column.justify = "right"
    why = reading if isinstance(reading, str) else reading.skipped
    if why:
        note(f"reading: {why}")
    return table


def _machine(report: "Report") -> str:
    can = report.machine
    parts = [
        f"copies {can.copy_gb_per_second:,.1f} GB/s",
        f"gathers rows at {can.gather_gb_per_second:,.1f} GB/s",
        f"multiplies {can.gflops:,.0f} GFLOP/s",
    ]
    if can.launch_us is not None and can.graph_launch_us is not None:
        parts.append(f"begins a kernel every {can.launch_us:.1f} µs, {can.graph_launch_us:.1f} µs in a graph")
    return f"The machine {', '.join(parts)}."


def _speeds(speed: "SpeedPair") -> tuple[str, str, str]:
    plain = f"{speed.baseline.per_second:,.0f}" if speed.baseline else _UNKNOWN
    return f"{speed.ours.per_second:,.0f}", plain, _times(speed)


def _times(speed: "SpeedPair") -> str:
    return _UNKNOWN if speed.ratio is None else f"{speed.ratio:,.1f}"


def _mb(size: float | None) -> str:
    return _UNKNOWN if size is None else f"{size:,.0f}"
