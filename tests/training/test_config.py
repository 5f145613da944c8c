"""Settings: what is refused, and how plain data changes them."""

import json
import math
import tomllib
from dataclasses import fields, replace

import pytest

from spherec.errors import ArgumentError, quote
from spherec.losses import Hinge, Softmin
from spherec.optim import Adam
from spherec.sampling import Hard, Popularity, SemiHard, TwoStage, Uniform
from spherec.training import Training
from spherec.training.config import PRESETS

CONFIGS = [
    *(preset.training for preset in PRESETS.values()),
    Training(dim=2, constraint="ball", loss=Hinge(margin=0.5, rank_weight=True), sampler=Popularity(3, beta=-0.5)),
    Training(loss=Softmin(gamma=0.5), sampler=Popularity(2), covariance=1e-3),
    Training(loss=Softmin(), sampler=SemiHard(2), covariance=1e-3, spread_out=10, seed=7),
    Training(reach=True, mainstream=-0.5, subspace_dim=32, loss=Softmin()),
    Training(reach=True, mainstream=0),
    Training(mainstream=0.5),
    Training(sampler=Hard(), optimizer=Adam(1e-4, epsilon=1e-7), batch_size=1, epochs=1, validate_every=9, patience=3),
]


def plain(settings):
    """Settings as read from TOML, which has no null."""
    if isinstance(settings, dict):
        return {name: plain(value) for name, value in settings.items()}
    return None if settings == "auto" else settings


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: type(config.sampler).__name__)
def test_a_description_is_plain_data_that_gives_the_config_back(config):
    described = json.loads(json.dumps(config.to_dict(), allow_nan=False))
    assert Training().change(described) == config
    assert set(described) == {field.name for field in fields(Training)}
    assert Training.from_dict(json.loads(json.dumps(config.to_record()))) == config
    assert described["sampler"]["kind"] == type(config.sampler).__name__
    assert PRESETS["accurate"].training.change(plain(tomllib.loads(config.to_toml()))) == config


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("dim", value) for value in (1, 0, -5, 8.0, "8", None, True)),
        *(("batch_size", value) for value in (0, -1, 2.5)),
        *(("epochs", value) for value in (0, 1.5, True)),
        *(("validate_every", value) for value in (0, 1.5)),
        *(("patience", value) for value in (0, math.inf)),
        *(("seed", value) for value in (-1, 0.5, None)),
        *(("covariance", value) for value in (-1e-9, math.nan, math.inf, "1")),
        *(("spread_out", value) for value in (-1, math.nan, math.inf, None)),
        *(("reach", value) for value in (1, None, "yes")),
        *(("mainstream", value) for value in (math.nan, math.inf, -101, 100.5, "high")),
        *(("constraint", value) for value in ("cube", "Sphere", None)),
        *(("effort", value) for value in (0, -1.0, float("nan"))),
        *(("loss", value) for value in ("Hinge", Uniform())),
        *(("sampler", value) for value in (None, Hinge())),
        *(("optimizer", value) for value in (1e-3, None)),
    ],
)
def test_what_cannot_be_is_refused_with_its_name_and_value(name, value):
    with pytest.raises(ArgumentError) as refused:
        Training(**{name: value})
    assert str(refused.value).startswith(name)
    assert quote(value) in str(refused.value)


def test_few_dimensions_get_more_epochs():
    def plan(dim):
        return PRESETS["fast"].training.change({"dim": dim}).plan(500_000).epochs

    assert [plan(dim) for dim in (16, 64, 128, 512, 1024)] == [17, 17, 12, 6, 6]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Training()),
        ({"dim": 64}, Training(dim=64)),
        ({"covariance": 1}, Training(covariance=1.0)),
        ({"sampler": {"beta": 0.6}}, Training(sampler=TwoStage(beta=0.6))),
        ({"sampler": {"beta": 1}}, Training(sampler=TwoStage(beta=1.0))),
        ({"sampler": {"kind": "TwoStage", "vectors": "frozen"}}, Training(sampler=TwoStage(vectors="frozen"))),
        ({"sampler": {"kind": "Uniform", "negatives": 5, "shared": True}}, Training(sampler=Uniform(5, shared=True))),
        ({"sampler": {"negatives": 4, "kind": "Hard"}}, Training(sampler=Hard(4))),
        ({"loss": {"kind": "Softmin", "temperature": 0.2}}, Training(loss=Softmin(temperature=0.2))),
        ({"optimizer": {"kind": "Adam", "beta1": 0}}, Training(optimizer=Adam(beta1=0.0))),
        (
            {"dim": 9, "loss": {"kind": "Softmin"}, "sampler": {"kind": "SemiHard", "margin": 0.5}},
            Training(dim=9, loss=Softmin(), sampler=SemiHard(margin=0.5)),
        ),
    ],
    ids=str,
)
def test_plain_data_changes_settings(changes, expected):
    changed = Training().change(changes)
    assert changed == expected
    assert type(changed.covariance) is type(changed.optimizer.learning_rate) is float


def test_changes_begin_from_the_base_and_leave_it_alone():
    base = Training(dim=32, sampler=TwoStage(beta=0.9, candidates=77))
    assert base.change({"sampler": {"negatives": 2}}).sampler == TwoStage(2, beta=0.9, candidates=77)
    assert base.change({"sampler": {"kind": "Popularity"}}) == replace(base, sampler=Popularity())
    assert base.sampler.negatives == 5


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"dims": 3}, ["dims", "'dim'"]),
        ({"sampler": {"candidate": 3}}, ["sampler.candidate", "'candidates'"]),
        ({"sampler": {"kind": "Uniform", "beta": 0.5}}, ["sampler.beta", "Uniform", "Popularity"]),
        ({"zzz": 3}, ["zzz", "batch_size"]),
        *(
            ({"sampler": {"kind": kind}}, ["sampler.kind", quote(kind)])
            for kind in ("uniform", "Hinge", 3, ["Uniform"])
        ),
        ({"optimizer": {"kind": "SGD"}}, ["optimizer.kind", "'SGD'"]),
        ({"sampler": "Uniform"}, ["sampler", "'Uniform'"]),
        ({"optimizer": 0.1}, ["optimizer", "0.1"]),
        *(({"covariance": value}, ["covariance", quote(value)]) for value in (True, 10**400)),
        ({"sampler": {"negatives": 1.5}}, ["negatives", "1.5"]),
        ({"sampler": {"kind": "Uniform", "shared": 1}}, ["sampler.shared", "1"]),
        ({"sampler": {"vectors": "cold"}}, ["sampler.vectors", "frozen", "'cold'"]),
        ({"reach": True, "constraint": "ball"}, ["reach", "'sphere'"]),
        ({"loss": {"rank_weight": "yes"}}, ["loss.rank_weight", "'yes'"]),
        ({"constraint": ["ball"]}, ["constraint", "sphere", quote(["ball"])]),
    ],
    ids=str,
)
def test_plain_data_that_does_not_fit_is_refused(changes, named):
    with pytest.raises(ArgumentError) as refused:
        Training().change(changes)
    for word in named:
        assert word in str(refused.value)


@pytest.mark.parametrize(("pairs", "epochs"), [(180_000, 30), (50_000, 62), (1_000, 3_000)])
def test_softmin_needs_fewer_passes_but_not_too_few_steps(pairs, epochs):
    plan = PRESETS["accurate"].training.plan(pairs)
    assert plan.epochs == epochs
    assert plan.steps == epochs * -(-pairs // 1024)
