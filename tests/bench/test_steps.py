"""Generated interactions: of the size that was asked for, and skewed."""

import numpy as np
from steps import generate_interactions


def test_few_items_have_many_users():
    data = generate_interactions(5000, 10_000, 100_000)
    assert (data.n_users, data.n_items) == (5000, 10_000)
    assert len(data) > 95_000
    popularity = np.sort(data.users_per_item)[::-1]
    share = popularity[:100].sum() / len(data)
    assert 0.08 < share < 0.12  # a hundredth of the items has the root of it: a tenth
    assert np.corrcoef(np.arange(data.n_items), data.users_per_item)[0, 1] < 0.05  # and they are anywhere
