"""`spherec presets`: what can be trained by name, and all settings of it."""

import tomllib

import pytest

from spherec.training import Training
from spherec.training.config import PRESETS


def test_all_are_listed_with_what_they_are(spherec):
    done = spherec("presets")
    assert done.code == 0
    for name, preset in PRESETS.items():
        (line,) = [line for line in done.out.splitlines() if line.split()[1:2] == [name]]
        for said in (type(preset.training.loss).__name__, type(preset.training.sampler).__name__, preset.what):
            assert said in line
    assert "spherec presets NAME" in done.err


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("base", PRESETS)
def test_the_printed_settings_are_the_preset_whatever_one_begins_from(spherec, name, base):
    done = spherec("presets", name)
    assert (done.code, done.err) == (0, "")
    content = tomllib.loads(done.out)
    assert PRESETS[base].training.change(content) == PRESETS[name].training
    assert Training(dim=7, seed=5).change(content) == PRESETS[name].training


def test_an_unknown_preset_is_refused_beside_the_known_ones(spherec):
    done = spherec("presets", "best")
    assert (done.code, done.out) == (2, "")
    assert "'best'" in done.err
    assert all(name in done.err for name in PRESETS)
