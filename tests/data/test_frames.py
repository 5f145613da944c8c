"""Data frames: names from a column, and ratings or counts that are not used."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, DataError, UnreadValuesWarning
from spherec.recommender import CML

COLUMNS = {
    "who": ["ann", "bob", "ann", "cat", "bob"],
    "what": [7, 7, 8, 9, 9],
    "title": ["Emma", "Emma", None, "Dune", "Dune II"],
}
FRAMES = pytest.mark.parametrize("frame_of", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])


@FRAMES
def test_item_names_come_from_a_column(frame_of):
    data = Interactions.from_frame(frame_of(COLUMNS), user="who", item="what", name="title")
    assert list(data.item_ids) == [7, 8, 9]
    assert data.item_names == ("Emma", None, "Dune II"), "none where there is none, the last where there are two"


@FRAMES
def test_fit_and_partial_fit_take_names(frame_of):
    columns = {"user": "who", "item": "what", "name": "title"}
    model = CML(dim=4, epochs=1, device="cpu").fit(frame_of(COLUMNS), **columns, validation=0)
    assert model.data.item_names == ("Emma", None, "Dune II")
    model.partial_fit(frame_of({"who": ["ann", "ann"], "what": [10, 8], "title": ["Ulysses", "Ivanhoe"]}), **columns)
    names = dict(zip(model.data.item_ids, model.data.item_names, strict=True))
    assert names == {7: "Emma", 8: "Ivanhoe", 9: "Dune II", 10: "Ulysses"}
    assert {row.name for row in model.recommend("cat", 4)} <= {"Emma", "Ivanhoe", "Ulysses"}


def test_names_of_other_columns_and_data_are_refused():
    with pytest.raises(DataError, match=r"'titel'.*'title'"):
        Interactions.from_frame(pl.DataFrame(COLUMNS), user="who", item="what", name="titel")
    for data, options in ((np.ones((2, 2)), {"orientation": "users x items"}), (Interactions.from_pairs("a", "b"), {})):
        with pytest.raises(ArgumentError, match="leave out name"):
            CML().fit(data, name="title", **options)


@FRAMES
@pytest.mark.parametrize("column", ["rating", "Play Count"])
def test_a_column_of_ratings_or_counts_that_is_not_used_is_told(frame_of, column):
    frame = frame_of({**COLUMNS, column: [1, 5, 3, 2, 1]})
    with pytest.warns(UnreadValuesWarning, match=f"column '{column}' is not used, and every row counts") as told:
        CML(dim=4, epochs=1, device="cpu").fit(frame, user="who", item="what", validation=0)
    assert len(told) == 1
    assert told[0].filename == __file__, "it points at the caller"
    assert f"value='{column}', cut=Cut(min_value=…)" in str(told[0].message)


@FRAMES
@pytest.mark.parametrize(
    "more",
    [{"rating": [1, 1, 1, 1, 1]}, {"rating": list("abcde")}, {"year": [1, 2, 3, 4, 5]}, {"sales": [2, 3, 4, 5, 6]}],
)
def test_nothing_is_told_of_other_columns(frame_of, more):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Interactions.from_frame(frame_of({**COLUMNS, **more}), user="who", item="what")


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix, sp.coo_array])
def test_values_of_a_matrix_are_told_unless_they_are_all_the_same(kind):
    counts = np.array([[0.0, 3.0], [1.0, 2.5]])
    with pytest.warns(UnreadValuesWarning, match=r"entries from 1 to 3, and each above 0 counts.*matrix > 0"):
        data = Interactions.from_matrix(kind(counts))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Interactions.from_matrix(kind((counts > 0) * 1.0)) == data
        assert Interactions.from_matrix(kind((counts > 0) * 7.0)) == data
