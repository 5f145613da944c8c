"""Who has what, against the matrix."""

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from spherec.kernels.cpu import CpuBackend
from spherec.kernels.reference import Backend
from spherec.sampling.draw import items_of_users
from tests.sampling.checks import CPU, ROWS, interactions, random_rows
from tests.strategies import MATRICES

WAYS = pytest.mark.parametrize("kernels", [CpuBackend(), Backend()], ids=["by rows", "by keys"])


def check(membership, rows, users, items, device=CPU):
    """Compare a mask with the matrix."""
    mask = membership.mask(torch.tensor(users, device=device), torch.tensor(items, device=device))
    assert mask.dtype == torch.bool
    np.testing.assert_array_equal(mask.cpu().numpy(), rows[users][:, items] > 0)


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
@example((np.zeros((2, 3), int), [([0, 1, 1], [0, 2])]))
@example((random_rows(200, 300, 0.1), [(list(range(199, -1, -1)), [*range(299, -1, -2), *range(50)])]))
@given(questions())
def test_mask_answers_as_the_matrix_does_one_question_after_another(kernels, asked):
    rows, questions = asked
    membership = kernels.membership(items_of_users(interactions(rows)), CPU)
    for users, items in questions:
        check(membership, rows, users, items)
