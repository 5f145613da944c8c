"""Searches against the config that they change."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherec.errors import ArgumentError
from spherec.lab import Choices, Range, SearchSpace, default_search, parse_searches
from spherec.lab.settings import read_setting
from spherec.losses import Softmin
from spherec.sampling import Hard, Popularity, SemiHard, TwoStage, Uniform
from spherec.training import Training
from spherec.training.presets import PRESETS
from tests.training.runs import DATA


def of(*searches, base=None):
    return SearchSpace.build(base or Training(), parse_searches(searches))


def test_numbers_take_the_type_of_their_field():
    domains = of("dim=8..64", "sampler.beta=0..1", "covariance=0..2:1", "batch_size=64,128", "loss.margin=1,2").domains
    assert domains["dim"] == Range(8, 64)
    assert isinstance(domains["sampler.beta"].low, float)
    assert isinstance(domains["covariance"].step, float)
    assert domains["batch_size"] == Choices((64, 128))
    assert [type(value) for value in domains["loss.margin"].values] == [float, float]


def leaves(table, path=""):
    for name, value in table.items():
        yield from leaves(value, f"{path}{name}.") if isinstance(value, dict) else [f"{path}{name}"]


@given(st.sampled_from(list(PRESETS)), st.data())
def test_any_field_of_any_preset_can_be_searched(preset, data):
    base = PRESETS[preset].training
    name = data.draw(st.sampled_from(sorted(leaves(base.to_dict()))))
    value = read_setting(base, name)
    options = {
        "constraint": None if base.reach else "sphere,ball",
        "loss.kind": "Hinge,Softmin",
        "sampler.kind": "Uniform,Hard",
        "sampler.vectors": "live,frozen",
        "optimizer.kind": None,  # there is one
        "optimizer.beta2": "0.99..0.999",
        "sampler.cap": "0.5..0.9",
        "optimizer.schedule": "constant,cosine",
        "subspace_dim": "32,64",
        "reach": "true,false",
    }
    text = options.get(
        name, "true,false" if isinstance(value, bool) else "0.1..0.2" if isinstance(value, float) else "5..9"
    )
    if name == "loss.temperature":
        text = "0.1..0.2"  # by default it comes from the data
    if text is not None:
        space = of(f"{name}={text}", base=base)
        for domain in space.domains.values():
            for one in domain.values if isinstance(domain, Choices) else (domain.low, domain.high):
                assert read_setting(space.config({name: one}), name) == one


def test_the_config_has_the_values_and_all_else_of_the_base():
    base = Training(dim=32, sampler=TwoStage(negatives=3, cap=0.5), seed=7)
    space = of("sampler.beta=0..1", "optimizer.learning_rate=1e-4..1e-2:log", base=base)
    config = space.config({"sampler.beta": 0.25, "optimizer.learning_rate": 0.003})
    assert config == replace(
        base,
        sampler=replace(base.sampler, beta=0.25),
        optimizer=replace(base.optimizer, learning_rate=0.003),
    )


def test_a_kind_can_be_searched_and_begins_from_its_defaults():
    space = of("sampler.kind=Uniform,TwoStage", "sampler.negatives=1..4", base=Training(sampler=TwoStage(cap=0.5)))
    assert space.config({"sampler.kind": "Uniform", "sampler.negatives": 3}).sampler == Uniform(negatives=3)
    assert space.config({"sampler.kind": "TwoStage", "sampler.negatives": 3}).sampler == TwoStage(3, cap=0.5)


def test_the_order_in_which_fields_are_named_does_not_matter():
    one, other = of("dim=2..4", "batch_size=8..16"), of("batch_size=8..16", "dim=2..4")
    assert list(one.domains) == list(other.domains)


@pytest.mark.parametrize(
    ("searches", "words"),
    [
        (["dims=2..4"], ["dims is not a field of Training", "did you mean 'dim'?"]),
        (["sampler.bet=0..1"], ["sampler.bet is not a field of TwoStage", "'beta'"]),
        (["sampler=0..1"], ["sampler has fields of its own"]),
        (["dim=2.5..4"], ["cannot search dim", "whole number", "2.5"]),
        (["dim=2..4:0.5"], ["dim has whole numbers", "2..4:0.5"]),
        (["dim=1..4"], ["dim must be a whole number >= 2, got 1"]),
        (["constraint=1..4"], ["constraint must be one of 'sphere', 'ball'"]),
        (["constraint=sphere,bal"], ["constraint", "'bal'"]),
        (["loss.rank_weight=0..1"], ["loss.rank_weight must be true or false"]),
        (["sampler.beta=low,high"], ["sampler.beta must be a number, got 'low'"]),
        (["optimizer.learning_rate=0..1"], ["learning_rate must be a number from 1e-12 to 1, got 0"]),
        (["optimizer.learning_rate=0.1..2"], ["learning_rate must be a number from 1e-12 to 1, got 2"]),
        (["sampler.kind=Uniform,Best"], ["sampler.kind must be one of", "'Best'"]),
        (["sampler.kind=1..2"], ["sampler.kind must be one of"]),
        (["loss.temperature=0.1..1"], ["loss.temperature is not a field of Hinge, but of Softmin; choose loss.kind"]),
        (
            ["sampler.kind=Uniform,TwoStage", "sampler.beta=0..1"],
            ["sampler.beta is not a field of Uniform, but of Popularity, TwoStage"],
        ),
        ([], ["nothing to search"]),
    ],
)
def test_what_cannot_be_searched_is_one_sentence(searches, words):
    with pytest.raises(ArgumentError) as refused:
        of(*searches)
    for word in words:
        assert word in str(refused.value)


def test_the_base_itself_is_the_start_where_it_may_be_found():
    base = Training(dim=64, sampler=TwoStage(beta=0.5))
    assert of("dim=32,64", "sampler.beta=0..1", base=base).start() == {"dim": 64, "sampler.beta": 0.5}
    assert of("dim=32,128", "sampler.beta=0..1", base=base).start() is None
    assert of("epochs=2..5", base=base).start() is None, "nothing is said about epochs"
    assert of("sampler.kind=Uniform,TwoStage", base=base).start() == {"sampler.kind": "TwoStage"}


@pytest.mark.parametrize("sampler", [Uniform(2), Popularity(), TwoStage(), TwoStage.as_released(), Hard(), SemiHard()])
@pytest.mark.parametrize("loss", [Training().loss, Softmin()])
def test_what_is_searched_if_nothing_is_said_suits_the_parts(loss, sampler):
    base = Training(loss=loss, sampler=sampler)
    space = SearchSpace.build(base, default_search(base))
    assert "optimizer.learning_rate" in space.domains
    assert ("loss.temperature" in space.domains) == isinstance(loss, Softmin)
    assert ("sampler.beta" in space.domains) == (hasattr(sampler, "beta") and not isinstance(loss, Softmin))


@pytest.mark.parametrize("preset", PRESETS)
def test_the_usual_search_of_a_preset_begins_with_the_preset(preset):
    base = PRESETS[preset].training.resolve(DATA)
    assert SearchSpace.build(base, default_search(base)).start() is not None
