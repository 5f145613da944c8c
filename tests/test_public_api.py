"""What users import stays where it is."""

import types
from pathlib import Path

import spherec

PARTS = {
    path.stem for path in Path(spherec.__file__).parent.iterdir() if not path.name.startswith("_")
}  # modules that were imported are attributes of the package


def test_all_is_sorted_small_and_real():
    assert spherec.__all__ == sorted(spherec.__all__)
    assert len(spherec.__all__) <= 24  # what a first script needs; everything else is imported from its part
    for name in spherec.__all__:
        assert getattr(spherec, name) is not None


def test_nothing_public_is_outside_all():
    own = {
        name
        for name, value in vars(spherec).items()
        if not name.startswith("_") and not (isinstance(value, types.ModuleType) and name in PARTS)
    }
    assert own <= set(spherec.__all__)
    assert dir(spherec) == spherec.__all__


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(spherec, "no_such_name")
