"""A comparison as a page to read: the table, how it was made, and what was chosen."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from spherec.compare.record import Result
from spherec.compare.study import Study
from spherec.compare.table import Line, best_peer

HEAD = ("model", "MAP %", "NDCG %", "Recall %", "MMR", "p MAP", "p NDCG", "fit s", "peak MB")
ON_PAGE_ONLY = ("p MAP",)
"""Columns for which 80 characters of a terminal have no room."""


def cells(line: Line) -> tuple[str, ...]:
    """What stands in each column of `HEAD`."""
    return (
        line.model,
        *map(str, (line.map, line.ndcg, line.recall, line.mmr)),
        *("" if value is None else _p(value) for value in (line.p_value_map, line.p_value)),
        f"{line.fit_seconds:.3g}" if line.fit_seconds < 100 else f"{line.fit_seconds:.0f}",
        "" if line.peak_mb is None else f"{line.peak_mb:,.0f}",
    )


def as_markdown(
    title: str,
    table: Sequence[Line],
    results: Sequence[Result],
    study: Study,
    *,
    command: str,
    sizes: Mapping[str, int],
) -> str:
    """The whole page."""
    about = ", ".join(f"{count:,} {name}" for name, count in sizes.items())
    parts = [
        f"# {title}: models compared",
        f"{about}. Lists of {study.k}. {_folds(table)}",
        _table(table),
        f"{_test(results)}fit s, peak MB: the last fit alone, mean over folds; {_memory(results)}.",
        f"For each model and fold, up to {study.trials} settings were tried on a validation part of "
        f"{100 * study.validation:g} % of the training pairs; the best by NDCG was fit again on all of them and tested "
        f"once.",
        f"```sh\n{command}\n```",
        "## Settings chosen",
        _chosen(table, results),
        "## Made by",
        _made_by(results),
    ]
    return "\n\n".join(parts) + "\n"


def _test(results: Sequence[Result]) -> str:
    peer = best_peer(results)
    test = "p: of a paired t-test over users (mean of each over folds)"
    return f"{test} against {peer}, the best peer. " if peer else ""


def _folds(table: Sequence[Line]) -> str:
    most = max((line.folds for line in table), default=0)
    fewer = [f"{line.model} has {line.folds}" for line in table if line.folds < most]
    over = f"Mean ± standard deviation over {most} folds" if most > 1 else "One split"
    return f"{over}{'; ' if fewer else ''}{', '.join(fewer)}."


def _table(table: Sequence[Line]) -> str:
    rule = "|---|" + "--:|" * (len(HEAD) - 1)
    bold = [f"**{line.model}**" if line.is_ours else line.model for line in table]
    body = ["| " + " | ".join((name, *cells(line)[1:])) + " |" for name, line in zip(bold, table, strict=True)]
    return "\n".join(["| " + " | ".join(HEAD) + " |", rule, *body])


def _chosen(table: Sequence[Line], results: Sequence[Result]) -> str:
    rows = [
        f"| {one.model} | {one.fold} | {described(one.settings)} | {_validation(one)} | {len(one.trials)} |"
        for line in table
        for one in results
        if one.model == line.model
    ]
    return "\n".join(["| model | fold | settings | validation NDCG % | trials |", "|---|--:|---|--:|--:|", *rows])


def described(settings: Mapping[str, Any]) -> str:
    """Settings in one line."""
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "none"


def _validation(result: Result) -> str:
    found = [trial["scores"]["ndcg"] for trial in result.trials if not trial["failed"]]
    return f"{100 * max(found):.2f}" if found else ""


def _made_by(results: Sequence[Result]) -> str:
    """Which commits, devices and versions, and which models with them."""
    where: dict[str, Counter[str]] = {}
    for one in results:
        text = ", ".join(f"{name} {value}" for name, value in one.environment.items())
        where.setdefault(text, Counter())[one.model] += 1
    return "\n".join(f"- {', '.join(models)}: {text}" for text, models in where.items())


def _memory(results: Sequence[Result]) -> str:
    by_kind: dict[str, list[str]] = {}
    for one in results:
        if one.model not in by_kind.setdefault(one.peak_of, []):
            by_kind[one.peak_of].append(one.model)
    return "memory " + "; ".join(f"{kind} for {', '.join(models)}" for kind, models in by_kind.items())


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
