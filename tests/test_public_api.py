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


def test_names_that_others_lean_on():
    data = spherec.Interactions.from_pairs(["a", "a", "b"], [1, 2, 2])
    assert (data.n_users, data.n_items, len(data)) == (2, 2, 3)
    assert list(data.user_ids) == ["a", "b"]
    assert list(data.item_ids) == [1, 2]
    assert data.item_names is None
    assert data.matrix.shape == (2, 2)
    assert data.matrix.toarray().tolist() == [[1, 1], [0, 1]]


def test_errors_share_one_base():
    for name in ("ArgumentError", "DataError", "UnknownIdError", "MissingPackageError"):
        assert issubclass(getattr(spherec.errors, name), spherec.SpherecError)


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(spherec, "no_such_name")
