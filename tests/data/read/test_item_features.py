"""Files of item features: tables of every format, matrices."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from spherec import Features, read_features
from spherec.errors import ArgumentError, DataError

ROWS = {
    "id": ["007", "8", "9", "10"],
    "year": [1979, 1972, None, 1985],
    "genres": ["Drama|War", "Drama", "War|Sea", "Sea"],
    "plot": ["the zone in the wood", "a sea that thinks of the past", "a boy in the war wood", "the past of the sea"],
}
EXPECTED = Features.from_frame(pd.DataFrame(ROWS), item="id")
COUNTS = np.array([[2, 0, 1, 0], [0, 0, 0, 0], [1, 3, 0, 0], [0, 1, 4, 1]], dtype=np.float32)


def same(features, expected=EXPECTED):
    assert list(features.item_ids) == list(expected.item_ids)
    np.testing.assert_array_equal(features.matrix, expected.matrix)
    return True


def delimited(separator):
    cells = [list(ROWS), *zip(*ROWS.values(), strict=True)]
    return "\n".join(separator.join("" if cell is None else str(cell) for cell in row) for row in cells) + "\n"


@pytest.mark.parametrize(("name", "separator"), [("a.csv", ","), ("a.tsv.gz", "\t"), ("a.txt", ";")])
def test_delimited_tables_are_read_with_all_columns(write, name, separator):
    assert same(read_features(write(name, delimited(separator))))


def test_json_lines_keep_lists_and_the_types_of_ids(write):
    objects = [dict(zip(ROWS, cells, strict=True)) for cells in zip(*ROWS.values(), strict=True)]
    for each in objects:
        each["genres"] = each["genres"].split("|")
    del objects[2]["year"]
    assert same(read_features(write("a.jsonl", "".join(f"{json.dumps(each)}\n" for each in objects))))
    numbers = read_features(write("b.jsonl", '{"id": 1, "x": 2}\n{"id": 2, "x": 4, "y": null}\n'))
    assert list(numbers.item_ids) == [1, 2]
    assert numbers.matrix[:, 0].tolist() == [-1, 1]
    assert numbers.sizes == {"x": 1}


def test_parquet_keeps_types(tmp_path):
    pl.DataFrame(ROWS).write_parquet(tmp_path / "a.parquet")
    assert same(read_features(tmp_path / "a.parquet"))
    pl.DataFrame({"sku": [3, 4], "size": [0.5, 1.5]}).write_parquet(tmp_path / "b.parquet")
    named = read_features(tmp_path / "b.parquet", item="sku")
    assert (list(named.item_ids), named.matrix.tolist()) == ([3, 4], [[-1], [1]])


def test_movies_of_movielens_are_recognised(write):
    path = write("movies.dat", "1::Toy Story (1995)::Animation|Comedy\n2::Heat::Crime|Comedy\n3::Up::Animation\n")
    features = read_features(path)
    assert list(features.item_ids) == ["1", "2", "3"]
    assert features.sizes["2"] == 2


@pytest.mark.parametrize("order", ["C", "F"])
def test_matrices_of_scipy_and_numpy_are_recognised(tmp_path, order):
    sp.save_npz(tmp_path / "words.npz", sp.csr_array(COUNTS))
    assert same(read_features(tmp_path / "words.npz"), Features.from_matrix(sp.csr_array(COUNTS)))
    vectors = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    np.save(tmp_path / "vectors.npy", np.asarray(vectors, order=order))
    assert same(read_features(tmp_path / "vectors.npy"), Features.from_matrix(vectors))


HEADER = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }"


@pytest.mark.parametrize("shape", [b"2, 9", b"-2, 1", b"2**60, 2", b"99999999999999999999, 1"])
def test_an_array_that_is_not_as_large_as_it_says_is_damaged(tmp_path, shape):
    (tmp_path / "f.npy").write_bytes((HEADER % shape).ljust(127) + b"\n" + bytes(8))
    with pytest.raises(DataError, match=r"f\.npy"):
        read_features(tmp_path / "f.npy")
    np.save(tmp_path / "f.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match=r"f\.npy"):
        read_features(tmp_path / "f.npy")


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (delimited(","), {"item": "sku"}, "'sku', only 'id', 'year', 'genres', 'plot'"),
        (delimited(","), {"kinds": {"yeer": "number"}}, "'yeer'"),
        ("id,x\n1,2\n1,3\n", {}, r"f\.csv: column 'id'"),
        ("id,x\n1,2\n,3\n", {}, r"f\.csv: column 'id': row 1"),
        ('{"id": 1, "x": 2}\n{"x": 3}\n', {"item": "id"}, r"f\.csv, line 2: 'id' is None"),
    ],
)
def test_errors_name_the_file_and_what_is_wrong(write, text, options, message):
    with pytest.raises((ArgumentError, DataError), match=message):
        read_features(write("f.csv", text), **options)
