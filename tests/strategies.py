"""What property tests draw from: ids of every kind, small matrices."""

import numpy as np
from hypothesis import strategies as st

ID_KINDS = {
    "int": st.integers(-(2**63), 2**63 - 1),
    "beyond 63 bits": st.integers(0, 2**64 - 1),
    "str": st.text(st.characters() | st.characters(categories=["Cs"])),  # surrogates, too
}
"""Strategies for every kind of id."""


def distinct_ids(min_size=0):
    """Lists of distinct ids, all of one kind."""
    return st.sampled_from(sorted(ID_KINDS)).flatmap(
        lambda kind: st.lists(ID_KINDS[kind], unique=True, min_size=min_size, max_size=8)
    )


MATRICES = st.tuples(st.integers(0, 5), st.integers(0, 5)).flatmap(
    lambda shape: st.lists(
        st.lists(st.sampled_from([0, 0, 1]), min_size=shape[1], max_size=shape[1]), min_size=shape[0], max_size=shape[0]
    ).map(lambda rows: np.array(rows, dtype=np.float64).reshape(shape))
)
"""Up to 5 x 5, with empty rows and columns, and without any."""
