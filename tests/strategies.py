"""What property tests draw from: ids of every kind, small matrices."""

from datetime import timedelta, timezone

import numpy as np
from hypothesis import strategies as st

_OFFSETS = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))

ID_KINDS = {
    "int": st.integers(-(2**63), 2**63 - 1),
    "int beyond 64 bits": st.integers(2**64, 2**90) | st.integers(-(2**90), -(2**64)),
    "float": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "str": st.text(st.characters() | st.characters(categories=["Cs"])),  # surrogates, too
    "bytes": st.binary(),
    "date": st.dates(),
    "datetime": st.datetimes(),
    "datetime with zone": st.datetimes(timezones=_OFFSETS),
    "time": st.times(),
    "time with zone": st.times(timezones=_OFFSETS),
    "timedelta": st.timedeltas(),
    "Decimal": st.decimals(allow_nan=False),
    "Fraction": st.fractions(),
    "UUID": st.uuids(),
}
"""Strategies for every kind of id that can be saved; hashable containers of them come on top."""

_ANY_ID = st.recursive(
    st.one_of(*ID_KINDS.values()),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)


def distinct_ids(min_size=0):
    """Lists of distinct ids: all of one kind, or mixed and nested."""
    return st.one_of(
        st.sampled_from(sorted(ID_KINDS)).flatmap(
            lambda kind: st.lists(ID_KINDS[kind], unique=True, min_size=min(min_size, 2), max_size=8)
        ),
        st.lists(_ANY_ID, unique=True, min_size=min_size, max_size=8),
    )


MATRICES = st.tuples(st.integers(0, 5), st.integers(0, 5)).flatmap(
    lambda shape: st.lists(
        st.lists(st.sampled_from([0, 0, 1]), min_size=shape[1], max_size=shape[1]),
        min_size=shape[0],
        max_size=shape[0],
    ).map(lambda rows: np.array(rows, dtype=np.float64).reshape(shape))
)
"""Up to 5 x 5, with empty rows and columns, and without any."""
