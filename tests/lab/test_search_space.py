"""The grammar of searches."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherec.errors import ArgumentError
from spherec.lab import Choices, Range, parse_searches

WHOLE = st.integers(-(10**9), 10**9)
ANY = st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}", fullmatch=True).filter(lambda word: word not in ("true", "false"))
NAMES = st.from_regex(r"[a-z_]{1,8}(\.[a-z_]{1,8})?", fullmatch=True)


@st.composite
def ranges(draw):
    numbers = draw(st.sampled_from([WHOLE, ANY]))
    low, high = sorted(draw(st.lists(numbers, min_size=2, max_size=2, unique=True)))
    if low > 0 and draw(st.booleans()):
        return Range(low, high, log=True)
    if isinstance(low, int) and draw(st.booleans()):
        step = draw(st.integers(1, 1000))
        return Range(low, low + step * draw(st.integers(1, 1000)), step=step)
    return Range(low, high)


@st.composite
def choices(draw):
    values = draw(st.lists(st.one_of(st.booleans(), WHOLE, ANY, WORDS), min_size=2, max_size=5, unique_by=str))
    return Choices(tuple(values))


@given(st.dictionaries(NAMES, ranges() | choices(), min_size=1, max_size=4))
def test_what_is_written_is_read_again(searches):
    again = parse_searches([f"{name}={domain}" for name, domain in searches.items()])
    assert again == searches
    assert list(map(str, again.values())) == list(map(str, searches.values()))


@given(ranges(), st.floats(0, 1))
def test_a_range_holds_its_ends_and_nothing_outside(domain, share):
    assert domain.low in domain
    assert domain.high in domain
    assert math.nextafter(domain.high, math.inf) not in domain
    assert math.nextafter(domain.low, -math.inf) not in domain
    if domain.step:
        steps = (domain.high - domain.low) // domain.step
        assert domain.low + round(share * steps) * domain.step in domain
        assert domain.low + domain.step / 2 not in domain


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("x=0.1..1.0", Range(0.1, 1.0)),
        (" x = 1e-4 .. 1e-2 :log ", Range(1e-4, 1e-2, log=True)),
        ("x=32..256:32", Range(32, 256, step=32)),
        ("x=0..1:0.25", Range(0, 1, step=0.25)),
        ("x=-1..+1", Range(-1, 1)),
        ("x=64,128, 256", Choices((64, 128, 256))),
        ("x=true,false", Choices((True, False))),
        ("x=Uniform,TwoStage", Choices(("Uniform", "TwoStage"))),
        ("x=1,0.5,1e-3", Choices((1, 0.5, 1e-3))),
    ],
)
def test_examples(text, domain):
    assert parse_searches([text]) == {"x": domain}


def test_decimals_are_steps_although_no_binary_numbers():
    domain = Range(0.1, 0.7, step=0.1)
    assert all(value in domain for value in (0.1, 0.2, 0.3, 0.7))
    assert 0.25 not in domain


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dim", ["NAME=RANGE", "'dim'"]),
        ("=1..2", ["NAME=RANGE"]),
        ("dim=", ["NAME=RANGE", "'dim='"]),
        ("dim=64", ["two choices or more", "64"]),
        ("dim=64,", ["dim", "neither a number nor a word"]),
        ("dim=5..1", ["dim", "begin below its end", "5..1"]),
        ("dim=1..1", ["begin below its end"]),
        ("x=a..b", ["not a range of numbers", "'a..b'", "A..B:log"]),
        ("x=2...4", ["not a range of numbers"]),
        ("x=1..2:lin", ["not a range of numbers", "A..B:STEP"]),
        ("x=0..1:log", ["begin above 0", "0..1:log"]),
        ("x=0..1:0", ["step above 0"]),
        ("x=0..1:0.3", ["whole number of steps", "0..1:0.3"]),
        ("x=1..1e999", ["finite"]),
        ("x=1,1", ["all different"]),
        ("x=1,nan?", ["neither a number nor a word", "'nan?'"]),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text, words):
    with pytest.raises(ArgumentError) as refused:
        parse_searches([text])
    for word in words:
        assert word in str(refused.value)


def test_a_field_is_searched_once():
    with pytest.raises(ArgumentError, match="dim=3,4"):
        parse_searches(["dim=1..2", "dim=3,4"])
