import pytest
import torch

from spherec import geometry, rng
from spherec.errors import ArgumentError
from spherec.geometry import DenseVectors


def initial(*, users=20, items=30, dim=16, stream=("model",), seed=0, **options):
    return DenseVectors.random(users, items, dim, rng.torch_stream(seed, *stream), **options)


def same(one, other):
    return torch.equal(one.user_table, other.user_table) and torch.equal(one.item_table, other.item_table)


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@pytest.mark.parametrize("dim", [2, 3, 128, 512])
def test_initial_rows_have_length_one(dim, constraint):
    model = initial(dim=dim, constraint=constraint)
    assert model.user_table.shape == (20, dim)
    assert model.item_table.shape == (30, dim)
    assert model.dim == dim
    assert model.constraint == constraint
    for rows in (model.user_table, model.item_table):
        assert rows.dtype == torch.float32
        torch.testing.assert_close(rows.norm(dim=1), torch.ones(len(rows)), rtol=1e-6, atol=0)


def test_initial_rows_point_everywhere_alike():
    rows = initial(users=1, items=20_000, dim=8).item_table.double()
    torch.testing.assert_close(rows.mean(0), torch.zeros(8).double(), rtol=0, atol=5 / (20_000 * 8) ** 0.5)
    torch.testing.assert_close(rows.T @ rows / 20_000, torch.eye(8).double() / 8, rtol=0, atol=5 / (20_000 * 8) ** 0.5)


def test_changing_users_in_place_leaves_items_alone():
    model = initial()
    items = model.item_table.clone()
    model.user_table.zero_()
    assert torch.equal(model.item_table, items)
    assert model.user_table.untyped_storage().data_ptr() != model.item_table.untyped_storage().data_ptr()


def test_blocks_are_views_of_the_tables_in_order(monkeypatch):
    monkeypatch.setattr(geometry, "_BLOCK", 8)
    vectors = initial()
    assert [len(block) for block in vectors.item_blocks()] == [8, 8, 8, 6]
    assert torch.equal(torch.cat(list(vectors.user_blocks())), vectors.user_table)
    assert torch.equal(torch.cat(list(vectors.item_blocks())), vectors.item_table)
    next(vectors.item_blocks()).zero_()
    assert not vectors.item_table[:8].any()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("side", ["user", "item"])
def test_rows_that_are_not_finite_are_refused_with_their_place(side, value):
    rows = {"user": torch.ones(5, 3), "item": torch.ones(6, 3)}
    rows[side][4, 1] = value
    with pytest.raises(ArgumentError, match=f"{side} vectors must be finite.*row 4"):
        geometry.check_finite(DenseVectors(rows["user"], rows["item"]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64], ids=str)
@pytest.mark.parametrize("side", ["user", "item"])
def test_rows_of_another_type_are_refused(side, dtype):
    rows = {"user": torch.ones(5, 3), "item": torch.ones(6, 3)}
    rows[side] = rows[side].to(dtype)
    with pytest.raises(ArgumentError, match=f"the {side} table must be float32 .*got {dtype}"):
        DenseVectors(rows["user"], rows["item"])


def test_users_and_items_of_other_dimensions_are_refused():
    with pytest.raises(ArgumentError, match="same dimensions"):
        DenseVectors(torch.ones(5, 3), torch.ones(6, 4))
