import pytest
import torch

from spherec import rng
from spherec.errors import ArgumentError
from spherec.model import MetricModel


def initial(*, users=20, items=30, dim=16, stream=("model",), seed=0, **options):
    return MetricModel.initial(users, items, dim, rng.torch_stream(seed, *stream), **options)


def same(one, other):
    return torch.equal(one.user_rows, other.user_rows) and torch.equal(one.item_rows, other.item_rows)


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@pytest.mark.parametrize("dim", [2, 3, 128, 512])
def test_initial_rows_have_length_one(dim, constraint):
    model = initial(dim=dim, constraint=constraint)
    assert model.user_rows.shape == (20, dim)
    assert model.item_rows.shape == (30, dim)
    assert model.dim == dim
    assert model.constraint == constraint
    for rows in (model.user_rows, model.item_rows):
        assert rows.dtype == torch.float32
        torch.testing.assert_close(rows.norm(dim=1), torch.ones(len(rows)), rtol=1e-6, atol=0)


def test_initial_rows_point_everywhere_alike():
    rows = initial(users=1, items=20_000, dim=8).item_rows.double()
    torch.testing.assert_close(rows.mean(0), torch.zeros(8).double(), rtol=0, atol=5 / (20_000 * 8) ** 0.5)
    torch.testing.assert_close(rows.T @ rows / 20_000, torch.eye(8).double() / 8, rtol=0, atol=5 / (20_000 * 8) ** 0.5)


def test_no_two_initial_rows_are_alike():
    model = initial(users=50, items=50)
    rows = torch.cat((model.user_rows, model.item_rows))
    assert len(rows.unique(dim=0)) == 100


def test_the_same_stream_gives_the_same_rows():
    assert same(initial(), initial())


@pytest.mark.parametrize("other", [{"seed": 1}, {"stream": ("other",)}, {"stream": ("model", 0)}], ids=str)
def test_another_stream_gives_other_rows(other):
    assert not same(initial(), initial(**other))


def test_changing_users_in_place_leaves_items_alone():
    model = initial()
    items = model.item_rows.clone()
    model.user_rows.zero_()
    assert torch.equal(model.item_rows, items)
    assert model.user_rows.untyped_storage().data_ptr() != model.item_rows.untyped_storage().data_ptr()


@pytest.mark.parametrize("dim", [1, 0, -3])
def test_too_few_dimensions_are_refused(dim):
    with pytest.raises(ArgumentError, match=f"dim must be .* >= 2, got {dim}"):
        initial(dim=dim)


def test_on_the_sphere_vectors_have_length_one_whatever_the_rows():
    model = MetricModel(torch.tensor([[3.0, 4.0], [0.3, -0.4]]), torch.tensor([[0.0, 2.0], [0.0, 0.0]]), "sphere")
    torch.testing.assert_close(model.vectors.user_table, torch.tensor([[0.6, 0.8], [0.6, -0.8]]))
    torch.testing.assert_close(model.vectors.item_table, torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
    assert model.user_rows.tolist()[0] == [3, 4]


def test_in_the_ball_vectors_are_the_rows():
    model = MetricModel(torch.tensor([[0.3, 0.4]]), torch.tensor([[0.0, 0.5], [1.0, 0.0]]), "ball")
    assert torch.equal(model.vectors.user_table, model.user_rows)
    assert torch.equal(model.vectors.item_table, model.item_rows)


def test_vectors_follow_rows_that_change_in_place():
    model = initial()
    model.item_rows[3] = torch.eye(16)[0] * 7
    assert model.vectors.items(torch.tensor(3)).tolist() == [1] + [0] * 15


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("side", ["user", "item"])
def test_rows_that_are_not_finite_are_refused_with_their_place(side, value):
    rows = {"user": torch.ones(5, 3), "item": torch.ones(6, 3)}
    rows[side][4, 1] = value
    with pytest.raises(ArgumentError, match=f"{side} rows must be finite.*row 4"):
        MetricModel(rows["user"], rows["item"])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64], ids=str)
@pytest.mark.parametrize("side", ["user", "item"])
def test_rows_of_another_type_are_refused(side, dtype):
    rows = {"user": torch.ones(5, 3), "item": torch.ones(6, 3)}
    rows[side] = rows[side].to(dtype)
    with pytest.raises(ArgumentError, match=f"{side} rows must be a float32 table, got {dtype}"):
        MetricModel(rows["user"], rows["item"])


@pytest.mark.parametrize("shape", [(3,), (2, 3, 3), ()], ids=str)
def test_rows_that_are_no_table_are_refused(shape):
    with pytest.raises(ArgumentError, match=r"item rows must be a float32 table.*shape \("):
        MetricModel(torch.ones(5, 3), torch.ones(shape))


def test_users_and_items_of_other_dimensions_are_refused():
    with pytest.raises(ArgumentError, match="got 3 and 4"):
        MetricModel(torch.ones(5, 3), torch.ones(6, 4))
