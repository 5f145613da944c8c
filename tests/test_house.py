"""Readability of the tree: names that mean one thing, docstrings with a head, few hops. `scripts/house.py` counts."""

import importlib.util
import inspect
import re
from pathlib import Path

import pytest

import spherec

ROOT = Path(__file__).parents[1]


def load_house():
    spec = importlib.util.spec_from_file_location("house", ROOT / "scripts/house.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


house = load_house()


@pytest.fixture(scope="module")
def static():
    return house.static_figures(ROOT)


@pytest.fixture(scope="module")
def hops():
    return house.executed_hops(ROOT)


def test_a_public_name_means_one_thing(static):
    assert len(static["repeated_names"]) < 10, static["repeated_names"]


def test_docstrings_have_a_head(static):
    assert len(static["headless"]) <= 3, static["headless"]


def test_help_texts_have_a_head(static):
    assert not static["headless_help"]


def test_functions_are_named_by_verbs(static):
    assert len(static["participles"]) < 10, static["participles"]


@pytest.mark.parametrize(
    "opening",
    [
        "What a run leaves.",
        "Of everything random.",
        "How rows move.",
        "Where vectors live.",
        "Whether it was.",
        "It was.",
        "As wanted.",
        "By the library.",
        "This and one more.",
        "From what `as_records` gave.",
    ],
)
def test_openings_without_a_head_are_found(opening):
    assert house.is_headless(opening)


@pytest.mark.parametrize(
    "opening",
    [
        "Return the k nearest items.",
        "Learning rate of Adam.",
        "As-released variant of two-stage sampling.",
        "`spherec train`: fit a model.",
        "(B, N) indices of items.",
        "Offset of each row.",
        "One step from raw rows to interactions.",
    ],
)
def test_noun_phrases_and_imperatives_are_left_alone(opening):
    assert not house.is_headless(opening)


def test_the_map_in_contributing_names_every_file():
    page = (ROOT / "CONTRIBUTING.md").read_text()
    drawn = page.partition("<!-- map -->")[2].partition("<!-- end of map -->")[0]
    labels = [re.match(r" *[\w./]*", line)[0] for line in drawn.strip().strip("`").strip().splitlines()]
    expected = [re.match(r" *[\w./]*", line)[0] for line in house.draw_map(ROOT).splitlines()]
    assert labels == expected, "run python scripts/house.py --write"


def test_public_callables_name_their_parameters():
    open_ended = []
    for name in spherec.__all__:
        value = getattr(spherec, name)
        members = (
            [member for _, member in inspect.getmembers(value, inspect.isroutine)]
            if inspect.isclass(value)
            else [value]
        )
        for function in (inspect.unwrap(getattr(member, "__func__", member)) for member in members):
            if inspect.isfunction(function) and function.__module__.startswith("spherec"):
                parameters = inspect.signature(function).parameters.values()
                open_ended += [f"{name}: {p}" for p in parameters if p.kind is p.VAR_KEYWORD]
    assert not open_ended


def test_training_on_a_file_goes_through_few_files(hops):
    assert len(hops["train"]["files"]) <= 50, hops["train"]["files"]


def test_recommend_reaches_the_product_in_few_calls(hops):
    assert 0 < hops["recommend"]["calls_to_product"] <= 4, hops["recommend"]["way_to_product"]


def test_a_step_goes_through_few_files(hops):
    assert len(hops["step"]["files"]) <= 8, hops["step"]["files"]
