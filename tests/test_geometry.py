import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from spherec import geometry, rng
from spherec.errors import ArgumentError
from spherec.geometry import (
    DenseVectors,
    check_finite,
    dots,
    longest_reach,
    project,
    squared_distance,
    to_vectors,
    unit,
    widen_items,
    widen_queries,
    widened_dim,
)
from tests import oracles

_NUMBERS = st.just(0.0) | st.floats(2**-13, 2**13, width=32) | st.floats(-(2**13), -(2**-13), width=32)
tables = arrays(np.float32, array_shapes(min_dims=1, max_dims=3, max_side=6), elements=_NUMBERS).map(torch.from_numpy)


def directions(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return unit(torch.randn(*shape, generator=generator, dtype=torch.float64))


@given(tables)
def test_unit_rows_have_length_one_and_the_same_direction_unless_they_are_zero(rows):
    lengths, units = rows.double().norm(dim=-1, keepdim=True), unit(rows)
    assert units.dtype == rows.dtype
    torch.testing.assert_close(units.double() * lengths, rows.double(), rtol=1e-6, atol=0)
    torch.testing.assert_close(units.double().norm(dim=-1), (lengths[..., 0] > 0).double(), rtol=1e-6, atol=0)


@given(tables)
def test_the_ball_takes_long_rows_to_its_surface_and_leaves_the_others_alone(rows):
    held = project(rows, "ball")
    long = rows.norm(dim=-1) > 1
    assert torch.equal(held[~long], rows[~long])
    torch.testing.assert_close(held[long], unit(rows)[long], rtol=1e-6, atol=0)
    assert torch.equal(project(rows, "sphere"), rows)
    assert torch.equal(to_vectors(rows, "sphere"), unit(rows))


@pytest.mark.parametrize("place", [unit, lambda rows: project(rows, "ball")], ids=["unit", "ball"])
def test_a_row_of_zeros_stays_one_with_finite_gradients(place):
    rows = torch.tensor([[0.0, 0.0], [0.6, 0.8], [3.0, 4.0]], requires_grad=True)
    vectors = place(rows)
    (vectors * torch.tensor([1.0, 2.0])).sum().backward()
    torch.testing.assert_close(vectors.detach(), torch.tensor([[0.0, 0.0], [0.6, 0.8], [0.6, 0.8]]))
    assert rows.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("b", "d"), [(1, 16), (4, 2), (4, 128)])
def test_distances_and_dot_products_are_those_of_plain_loops(b, d, n, shared, dtype):
    ones, others = directions(b, d), 0.5 * directions(1 if shared else b, n, d, seed=1)
    expanded = others.expand(b, -1, -1).tolist()
    pairs = [[(one, other) for other in many] for one, many in zip(ones.tolist(), expanded, strict=True)]
    tolerance = {"rtol": 0, "atol": 1e-12 if dtype == torch.float64 else 1e-6}
    for measure, oracle in ((squared_distance, oracles.squared_distance), (dots, oracles.dot)):
        expected = torch.tensor([[oracle(*pair) for pair in row] for row in pairs], dtype=torch.float64)
        torch.testing.assert_close(measure(ones.to(dtype), others.to(dtype)).double(), expected, **tolerance)
    one_to_one = [oracles.squared_distance(*row[0]) for row in pairs]
    assert squared_distance(ones, others.expand(b, -1, -1)[:, 0]).tolist() == pytest.approx(one_to_one, abs=1e-12)


# --- Reach -----------------------------------------------------------------------------------------------------------


@st.composite
def spaces(draw):
    """Unit vectors of users (B, D) and items (I, D), a reach for each item (I,), and λ for each user (B,)."""
    n_users, n_items, dim = draw(st.integers(1, 4)), draw(st.integers(1, 8)), draw(st.integers(2, 5))
    shares = st.floats(-2, 2, width=32)
    reach, dial = (draw(arrays(np.float32, n, elements=shares)) for n in (n_items, n_users))
    users, items = directions(n_users, dim), directions(n_items, dim, seed=draw(st.integers(1, 99)))
    return users, items, torch.from_numpy(reach).double(), torch.from_numpy(dial).double()


@given(space=spaces())
def test_products_of_widened_vectors_are_scores_and_the_nearest_has_the_largest(space):
    users, items, reach, dial = space
    scores = [
        [oracles.dot(user, item) + share * r for item, r in zip(items.tolist(), reach.tolist(), strict=True)]
        for user, share in zip(users.tolist(), dial.tolist(), strict=True)
    ]
    wide, queries = widen_items(items, reach, longest_reach(reach)), widen_queries(users, dial)
    assert wide.shape == (len(items), items.shape[1] + 2)
    torch.testing.assert_close(queries @ wide.T, torch.tensor(scores, dtype=torch.float64), atol=1e-12, rtol=0)
    lengths = wide.norm(dim=1)
    torch.testing.assert_close(lengths, torch.full_like(lengths, (1 + longest_reach(reach) ** 2) ** 0.5))
    # Both are the score, turned: d² = |q|² + |x|² − 2 q·x and cos = q·x / |q||x|, with the same |x| for all items.
    distances = torch.cdist(queries, wide).square()
    turned = (queries.square().sum(1, keepdim=True) + lengths.square() - distances) / 2
    torch.testing.assert_close(turned, torch.tensor(scores, dtype=torch.float64), atol=1e-6, rtol=0)


def test_reach_of_no_items_is_none():
    assert longest_reach(torch.zeros(0)) == 0
    vectors = DenseVectors(torch.ones(2, 3), torch.ones(4, 3), "sphere", torch.tensor([[0.5, -1.5]]).repeat(4, 1))
    assert (widened_dim(vectors), longest_reach(vectors.reach)) == (5, 0.5)
    plain = DenseVectors(torch.ones(2, 3), torch.ones(4, 3))
    assert (widened_dim(plain), plain.reach) == (3, None)


# --- Vectors ---------------------------------------------------------------------------------------------------------


def random_vectors(**options):
    return DenseVectors.random(20, 30, 16, rng.torch_stream(0, "model"), **options)


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
def test_random_vectors_have_length_one_and_point_everywhere_alike(constraint):
    model = DenseVectors.random(20, 20_000, 8, rng.torch_stream(0, "model"), constraint=constraint)
    assert (model.n_users, model.n_items, model.dim, model.constraint) == (20, 20_000, 8, constraint)
    for rows in (model.user_table, model.item_table):
        assert rows.dtype == torch.float32
        torch.testing.assert_close(rows.norm(dim=1), torch.ones(len(rows)), rtol=1e-6, atol=0)
    rows, tolerance = model.item_table.double(), {"rtol": 0, "atol": 5 / (20_000 * 8) ** 0.5}
    torch.testing.assert_close(rows.mean(0), torch.zeros(8).double(), **tolerance)
    torch.testing.assert_close(rows.T @ rows / 20_000, torch.eye(8).double() / 8, **tolerance)


def test_blocks_are_views_of_the_tables_in_order(monkeypatch):
    monkeypatch.setattr(geometry, "_BLOCK", 8)
    vectors = random_vectors()
    assert [len(block) for block in vectors.item_blocks()] == [8, 8, 8, 6]
    assert torch.equal(torch.cat(list(vectors.user_blocks())), vectors.user_table)
    assert torch.equal(torch.cat(list(vectors.item_blocks())), vectors.item_table)
    items = vectors.item_table.clone()
    vectors.user_table.zero_()
    assert torch.equal(vectors.item_table, items), "users and items share no memory"
    next(vectors.item_blocks()).zero_()
    assert not vectors.item_table[:8].any()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_vectors_that_are_not_finite_are_refused_with_their_place(value):
    for broken, place in enumerate(("user vectors .* row 2", "item vectors .* row 2", "reach .* item 2")):
        tables = [torch.ones(5, 3), torch.ones(4, 3), torch.ones(4, 2)]
        tables[broken][2, 1] = value
        with pytest.raises(ArgumentError, match=place):
            check_finite(DenseVectors(*tables[:2], "sphere", tables[2]))


F = torch.zeros


@pytest.mark.parametrize(
    "tables",
    [
        *((F(5, 3).to(dtype), F(4, 3)) for dtype in (torch.float64, torch.float16, torch.int64)),
        (F(5, 3), F(4, 3).double()),
        (F(5, 3), F(4, 4)),
        (F(5, 3), F(4)),
        *((F(5, 3), F(4, 3), "sphere", reach) for reach in (F(4), F(3, 1), F(4, 0), F(4, 1).double())),
    ],
)
def test_tables_that_do_not_fit_are_refused(tables):
    with pytest.raises(ArgumentError, match="must be float32"):
        DenseVectors(*tables)
