"""Who has what, against the matrix."""

import numpy as np
import pytest
import torch

from spherec.kernels.cuda import CudaBackend
from spherec.sampling.draw import items_of_users
from tests.kernels.cuda.conftest import DEVICE
from tests.sampling.checks import interactions, random_rows

NOTHING, EVERYTHING = np.zeros((1, 300)), np.ones((1, 300))


def mask_of(rows, users, items):
    membership = CudaBackend().membership(items_of_users(interactions(rows)), DEVICE)
    return membership.mask(torch.tensor(users, device=DEVICE), torch.tensor(items, device=DEVICE)).cpu().numpy()


@pytest.mark.parametrize("share", [0.003, 0.1, 0.9])
def test_the_mask_is_the_matrix(share):
    rows = np.vstack((NOTHING, random_rows(10, 300, share), EVERYTHING, NOTHING)).astype(int)
    users, items = [12, 3, 3, 0, 11, *range(1, 11)], [*range(299, -1, -1), *range(0, 300, 7)]
    np.testing.assert_array_equal(mask_of(rows, users, items), rows[users][:, items] > 0)


def test_where_nobody_has_anything_the_mask_is_empty():
    assert not mask_of(np.zeros((2, 3)), [0, 1, 1], [0, 2]).any()
    assert mask_of(np.ones((2, 3)), [], [0, 2]).shape == (0, 2)
