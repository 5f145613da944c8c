"""The grammar of searches, and searches against the config that they change."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherec.errors import ArgumentError
from spherec.lab import Choices, Range, SearchSpace, parse_searches
from spherec.lab.search_space import flatten, read_setting
from spherec.sampling import TwoStage
from spherec.training import Training
from spherec.training.config import PRESETS

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
        ("x=64,128, 256", Choices((64, 128, 256))),
        ("x=true,false", Choices((True, False))),
        ("x=1,0.5,1e-3", Choices((1, 0.5, 1e-3))),
    ],
)
def test_examples(text, domain):
    assert parse_searches([text]) == {"x": domain}


def of(*searches, base=None):
    return SearchSpace.build(base or Training(), parse_searches(searches))


def test_numbers_take_the_type_of_their_field():
    domains = of("dim=8..64", "sampler.beta=0..1", "covariance=0..2:1", "batch_size=64,128", "loss.margin=1,2").domains
    assert domains["dim"] == Range(8, 64)
    assert isinstance(domains["sampler.beta"].low, float)
    assert isinstance(domains["covariance"].step, float)
    assert domains["batch_size"] == Choices((64, 128))
    assert [type(value) for value in domains["loss.margin"].values] == [float, float]


@pytest.mark.parametrize("preset", PRESETS)
def test_any_number_of_any_preset_can_be_searched(preset):
    base = PRESETS[preset].training
    for name, value in flatten(base.to_dict()).items():
        if type(value) in (int, float):
            usual = "0.1..0.2" if isinstance(value, float) else "5..9"
            values = {"optimizer.beta2": "0.99..0.999", "subspace_dim": "32..64:32"}.get(name, usual)
            space = of(f"{name}={values}", base=base)
            for end in (space.domains[name].low, space.domains[name].high):
                assert read_setting(space.config({name: end}), name) == end


BAD = [
    *("dim", "dim=64", "dim=5..1", "x=a..b", "x=2...4", "x=1..2:lin", "x=0..1:log", "x=0..1:0", "x=1..1e999", "x=1,1"),
    *("sampler.bet=0..1", "sampler=0..1", "dim=2.5..4", "dim=2..4:0.5", "dim=1..4", "constraint=sphere,bal"),
    *("sampler.beta=low,high", "optimizer.learning_rate=0.1..2", "sampler.kind=1..2", "loss.temperature=0.1..1"),
]


@pytest.mark.parametrize("search", BAD)
def test_what_cannot_be_searched_is_named(search):
    with pytest.raises(ArgumentError) as refused:
        of(search)
    assert search.partition("=")[0] in str(refused.value)


@pytest.mark.parametrize(
    ("searches", "word"),
    [
        (["dims=2..4"], "did you mean 'dim'"),
        ([], "nothing to search"),
    ],
)
def test_what_does_not_go_together_is_refused(searches, word):
    with pytest.raises(ArgumentError, match=word):
        of(*searches)


def test_the_base_itself_is_the_start_where_it_may_be_found():
    base = Training(dim=64, sampler=TwoStage(beta=0.5))
    assert of("dim=32,64", "sampler.beta=0..1", base=base).start() == {"dim": 64, "sampler.beta": 0.5}
    assert of("dim=32,128", "sampler.beta=0..1", base=base).start() is None
    assert of("epochs=2..5", base=base).start() is None, "nothing is said about epochs"
