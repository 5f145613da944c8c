import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from spherec.kernels.cpu import CpuBackend
from spherec.kernels.reference import ReferenceBackend
from spherec.sampling.draw import items_of_users
from tests.sampling.checks import CPU, ROWS, interactions, random_rows
from tests.strategies import MATRICES

WAYS = pytest.mark.parametrize("kernels", [CpuBackend(), ReferenceBackend()], ids=["by rows", "by keys"])


def membership_of(rows, kernels):
    return kernels.membership(items_of_users(interactions(rows)), CPU)


@st.composite
def questions(draw):
    """A matrix with a pair in it, and twice users and items to ask about, with repetitions."""
    rows = draw(MATRICES.filter(np.any)).astype(int)
    users = st.lists(st.integers(0, rows.shape[0] - 1), min_size=1, max_size=6)
    items = st.lists(st.integers(0, rows.shape[1] - 1), min_size=1, max_size=6)
    return rows, [(draw(users), draw(items)) for _ in range(2)]


@WAYS
@example((np.array(ROWS), [([5, 4, 5], [0, 5, 0, 3]), ([0, 0], [1, 2])]))
@example((np.array([[1]]), [([0], [0]), ([0, 0], [0, 0])]))
@given(questions())
def test_mask_answers_as_the_matrix_does_one_question_after_another(kernels, asked):
    rows, both = asked
    membership = membership_of(rows, kernels)
    for users, items in both:
        mask = membership.mask(torch.tensor(users), torch.tensor(items))
        assert mask.dtype == torch.bool
        assert mask.tolist() == [[bool(rows[user][item]) for item in items] for user in users]


@WAYS
def test_mask_answers_for_many_at_once(kernels):
    rows = random_rows(200, 300, 0.1)
    users, items = np.arange(200)[::-1].copy(), np.concatenate([np.arange(299, -1, -2), np.arange(50)])
    mask = membership_of(rows, kernels).mask(torch.tensor(users), torch.tensor(items))
    np.testing.assert_array_equal(mask.numpy(), rows[users][:, items] > 0)


@WAYS
def test_where_nobody_has_anything_the_mask_is_empty(kernels):
    membership = membership_of(np.zeros((2, 3)), kernels)
    assert not membership.mask(torch.tensor([0, 1, 1]), torch.tensor([0, 2])).any()
