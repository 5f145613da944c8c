"""The library's borders: whatever comes in, there is an answer or one error of ours, in one short line."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

import spherec
from spherec.data.input_files import refuse_unreadable
from spherec.errors import ArgumentError, DataError, SpherecError, UnknownIdError, escape_controls, quote
from spherec.ranking import ExactRanker
from tests.recommender.models import model_of, small


@pytest.fixture(scope="module", params=[None, 0.4], ids=["plain", "reach"])
def model(request):
    return model_of(small(), mainstream=request.param)


@pytest.mark.parametrize("k", [10**9, 2**40, 2**62, 10**30, np.int64(3), np.uint8(3), 3])
def test_any_length_of_a_list_is_cut_to_what_there_is(model, k):
    user, item = model.data.user_ids[0], model.data.item_ids[0]
    assert len(model.recommend(user, k)) <= model.data.n_items
    assert len(model.recommend_for([item], k)) < model.data.n_items
    assert len(model.similar_items(item, k)) < model.data.n_items
    assert len(model.similar_users(user, k)) < model.data.n_users
    assert model.explain(user, item, k) is not None


@pytest.mark.parametrize("k", [0, -1, True, False, 2.5, 3.0, "3", None, [3], np.float64(3), np.array([1, 2])])
def test_what_is_no_length_is_refused(model, k):
    user, item = model.data.user_ids[0], model.data.item_ids[0]
    ranker = ExactRanker(model.vectors)
    for ask in (
        lambda: model.recommend(user, k),
        lambda: model.recommend_for([item], k),
        lambda: model.similar_items(item, k),
        lambda: model.similar_users(user, k),
        lambda: model.explain(user, item, k),
        lambda: ranker.top(np.array([0]), k),
        lambda: spherec.evaluate(ranker, model.data, model.data, k=k),
    ):
        with pytest.raises(ArgumentError, match="k must be a whole number >= 1"):
            ask()


@pytest.mark.parametrize("index", [[-1], [10**6], [0.5], ["0"], 0, [[0]]])
def test_a_ranker_refuses_users_and_items_that_it_does_not_have(model, index):
    ranker = ExactRanker(model.vectors)
    queries = model.vectors.user_table[:1].numpy()
    with pytest.raises(ArgumentError, match="users must be"):
        ranker.top(index, 3)
    for name, items in (("only", index), ("exclude", index), ("without", [index])):
        with pytest.raises(ArgumentError, match=f"{name} must"):
            ranker.top_of(queries, 3, **{name: items})


def test_a_ranker_takes_lists_of_users_and_refuses_lists_of_vectors(model):
    ranker = ExactRanker(model.vectors)
    np.testing.assert_array_equal(ranker.top([0, 1], 3).items, ranker.top(np.array([0, 1]), 3).items)
    with pytest.raises(ArgumentError, match="queries must be"):
        ranker.top_of([[0.5] * model.vectors.dim], 3)


@pytest.mark.parametrize(
    "matrix",
    [
        sp.csr_matrix([[1.0, np.nan]]),
        sp.csr_matrix([[1.0, -1.0]]),
        sp.csr_matrix(np.eye(3).astype(complex)),
        torch.eye(3).to_sparse(),
        pd.DataFrame([[1, 0]], index=["ann"], columns=["x", "y"]),
        np.array([["a"]]),
        np.zeros((2, 2, 2)),
        [[1, 2], [3]],
        "matrix",
    ],
)
def test_what_is_no_matrix_of_interactions_is_refused(matrix):
    with pytest.raises(SpherecError):
        spherec.Interactions.from_matrix(matrix)


@pytest.mark.parametrize("path", ["x" * 245, "x" * 5000, "a\0b", "", 5, None, b"x", "\ud800.csv"])
def test_names_that_no_file_can_have_are_refused_everywhere(model, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for use in (spherec.read, spherec.load, spherec.Interactions.load, refuse_unreadable):
        with pytest.raises(SpherecError) as refused:
            use(path)
        assert "\n" not in str(refused.value)
        assert "\0" not in str(refused.value)


def test_pipes_devices_and_folders_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    for path in (tmp_path / "pipe.csv", "/dev/zero", "/dev/null"):
        for use in (spherec.read, spherec.load, spherec.Interactions.load):
            with pytest.raises(DataError):
                use(path)


def test_an_error_about_ids_is_short(model):
    many = tuple(f"unknown {number}" for number in range(5000))
    for ids in (many, list(many), "x" * 100_000, [many, "x" * 100_000]):
        with pytest.raises(UnknownIdError) as refused:
            model.recommend(ids)
        assert len(str(refused.value)) < 900
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a", "'a'"),
        ("it's", '"it\'s"'),
        ("\x1b[31m\n", r"'\x1b[31m\n'"),
        (np.float32(0.5), "0.5"),
        (Path("a/b"), "a/b"),
        ({"a": 1}, "a value of type dict"),
        (np.zeros((2, 3)), "a value of type ndarray of shape (2, 3)"),
        (None, "None"),
        ((1, "a"), "(1, 'a')"),
        (list(range(9)), "[0, 1, 2, 3, 4, … 9 in all]"),
    ],
)
def test_values_are_shown_plainly_in_messages(value, shown):
    assert quote(value) == shown


def test_control_characters_are_shown_as_escapes():
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x2028, 0x202E, 0x2066, 0xD800, 0xFEFF):
        escaped = escape_controls(f"a{chr(code)}b")
        assert chr(code) not in escaped
        assert escaped.isprintable()
    assert escape_controls("Straße, 東京, 👩‍👧") == "Straße, 東京, 👩‍👧"
