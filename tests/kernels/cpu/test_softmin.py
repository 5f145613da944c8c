"""The pass over the table of softmin: its bits do not depend on where in memory the arrays lie."""

import numpy as np
import pytest

from spherec.kernels.cpu.softmin import exponentiate


@pytest.mark.parametrize("n", range(1, 81))
def test_a_sum_does_not_depend_on_where_its_row_lies(n):
    """Before a loop that reads and writes, LLVM compares addresses. Small arrays side by side look as if they overlap,
    and are computed number by number, in another order than arrays that lie apart."""
    given = np.random.default_rng(n).uniform(-8, 0, n).astype(np.float32)

    def compute(distance):
        memory = np.empty(2 * distance + n, np.float32)
        mantissa, power, row = (memory[start : start + n] for start in (0, distance, 2 * distance))
        row[:] = given
        return float(exponentiate(row, np.float32(0), mantissa, power.view(np.int32))), row.tobytes()

    apart, side_by_side = compute(1024), compute(n)
    assert apart == side_by_side
    np.testing.assert_allclose(apart[0], np.exp(given.astype(np.float64)).sum(), rtol=1e-6)
