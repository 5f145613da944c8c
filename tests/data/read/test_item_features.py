"""Files of item features: tables of every format, lists of words and tags, matrices; tomorrow's files likewise."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from spherec import Features, read_features
from spherec.data.ids import IdMap
from spherec.errors import ArgumentError, DataError

ROWS = {
    "id": ["007", "8", "9", "10"],
    "year": [1979, 1972, None, 1985],
    "genres": ["Drama|War", "Drama", "War|Sea", "Sea"],
    "plot": ["the zone in the wood", "a sea that thinks of the past", "a boy in the war wood", "the past of the sea"],
}
EXPECTED = Features.from_frame(pd.DataFrame(ROWS), item="id")


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
    numbers = read_features(write("b.jsonl", '{"id": 1, "x": 2, "v": [0.5, 1.5]}\n{"id": 2, "x": 4, "v": null}\n'))
    assert list(numbers.item_ids) == [1, 2]
    assert numbers.matrix[:, 0].tolist() == [-1, 1]
    assert numbers.transformation.sizes == {"x": 1, "v": 2}


def test_parquet_keeps_types(tmp_path):
    pl.DataFrame(ROWS).write_parquet(tmp_path / "a.parquet")
    assert same(read_features(tmp_path / "a.parquet"))
    frame = pl.DataFrame({"sku": [3, 4], "vector": [[0.0, 1.0], [1.0, 1.0]]})
    frame.with_columns(pl.col("vector").cast(pl.Array(pl.Float32, 2))).write_parquet(tmp_path / "b.parquet")
    embedded = read_features(tmp_path / "b.parquet", item="sku")
    assert list(embedded.item_ids) == [3, 4]
    np.testing.assert_allclose(embedded.matrix, np.array([[0, 1], [1, 1]]) / np.sqrt(1.5), rtol=1e-6)


def test_movielens_movies_and_other_headless_tables_are_recognised(write):
    path = write("movies.dat", "1::Toy Story (1995)::Animation|Comedy\n2::Heat::Crime|Comedy\n3::Up::Animation\n")
    features = read_features(path)
    assert list(features.item_ids) == ["1", "2", "3"]
    assert features.transformation.sizes["2"] == 2
    named = read_features(write("a.csv", "1,5\n2,6\n"), header=["sku", "price"], item="sku")
    assert named.matrix.tolist() == [[-1], [1]]


# --- Lists -----------------------------------------------------------------------------------------------------------

COUNTS = np.array([[2, 0, 1, 0], [0, 0, 0, 0], [1, 3, 0, 0], [0, 1, 4, 1]], dtype=np.float32)


def word_counts(counts):
    words = [[f"{word}:{int(row[word])}" for word in np.flatnonzero(row)] for row in counts]
    return "\n".join(" ".join([str(len(row)), *row]) for row in words)


def number_lists(matrix):
    return "\n".join(" ".join([str(int(row.sum())), *map(str, np.flatnonzero(row))]) for row in matrix)


def test_word_counts_are_recognised_and_lines_are_items(write):
    features = read_features(write("mult.dat.gz", word_counts(COUNTS)))
    assert same(features, Features.from_matrix(sp.csr_array(COUNTS), ["0", "1", "2", "3"]))
    assert features.known.tolist() == [True, False, True, True]
    assert dict(features.left_out) == {"mult: words of fewer than 2 items": 1, "mult: missing": 1}


def test_lists_of_tags_are_recognised_by_name_or_option(write):
    has = np.array([[1, 1, 0], [1, 0, 1], [0, 0, 0], [1, 1, 1]])
    expected = Features.from_matrix(sp.csr_array(has[[0, 1, 3]].astype(float)), ["0", "1", "3"])
    by_tag, by_item = number_lists(has.T), number_lists(has)
    assert same(read_features(write("tag-item.dat", by_tag)), expected)
    assert same(read_features(write("x.dat", by_tag), format="tag-items"), expected)
    items = read_features(write("item-tag.dat", by_item))
    assert same(items.align(["0", "1", "3"]), expected)
    assert not items.known[2]
    with pytest.raises(DataError, match="whether a line is a tag or an item; say so by its name"):
        read_features(write("y.dat", by_item))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 1:1 2:1\n3 1:1 2:1\n", "line 2: begins with '3', but 2 entries follow"),
        ("1 1:1\n1 2\n", "line 2: '2' is not word:count, both numbers"),
        ("1 1:1\n1 2:x\n", "line 2: '2:x' is not word:count"),
        ("1 1:1\n1 99999999999:1\n", "line 2: '99999999999:1' is not word:count"),
        ("0\n0\n", "has no entries"),
    ],
)
def test_bad_lists_name_the_line(write, text, message):
    with pytest.raises(DataError, match=message):
        read_features(write("mult.dat", text), format="word-counts")


# --- Matrices --------------------------------------------------------------------------------------------------------


def test_matrices_of_scipy_and_numpy_are_recognised(tmp_path, write):
    sp.save_npz(tmp_path / "words.npz", sp.csr_array(COUNTS))
    assert same(read_features(tmp_path / "words.npz"), Features.from_matrix(sp.csr_array(COUNTS)))
    vectors = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    np.save(tmp_path / "vectors.npy", vectors)
    assert same(read_features(tmp_path / "vectors.npy"), Features.from_matrix(vectors))
    ids = write("ids.txt", "a\nb\nc\nd\n")
    assert same(read_features(tmp_path / "vectors.npy", items=ids), Features.from_matrix(vectors, list("abcd")))
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="does not hold what it declares; save it again"):
        read_features(tmp_path / "objects.npy")


# --- Tomorrow's files ------------------------------------------------------------------------------------------------


def test_another_file_goes_through_the_same_transformation(write):
    features = read_features(write("a.csv", delimited(",")))
    new = read_features(write("b.csv", "id,year,genres,plot\n11,1980,War|Opera,the wood\n"), like=features)
    cells = {"id": ["11"], "year": [1980], "genres": ["War|Opera"], "plot": ["the wood"]}
    framed = features.transform(pd.DataFrame(cells))
    assert same(new, framed)
    assert dict(new.left_out)["genres: unknown words"] == 1
    with pytest.raises(DataError, match=r"c\.csv: there is no column 'genres'"):
        read_features(write("c.csv", "id,year\n1,1980\n"), like=features)


def test_words_that_were_not_there_are_counted(write):
    features = read_features(write("mult.dat", word_counts(COUNTS)))
    new = read_features(write("new.dat", "2 0:1 9:4\n1 1:2\n"), like=features, items=["p", "q"])
    assert same(new, features.transform(sp.csr_array([[1.0, 0, 0, 0], [0, 2, 0, 0]]), item_ids=["p", "q"]))
    assert dict(new.left_out)["new: unknown words"] == 1


def test_joined_features_are_split_to_read_each_file(write, tmp_path):
    path = write("mult.dat", word_counts(COUNTS))
    words = read_features(path)
    both = Features.join(words, Features.from_matrix(np.eye(4), ["0", "1", "2", "3"], name="vectors"))
    both.save(tmp_path / "both.npz")
    first, second = read_features(tmp_path / "both.npz").split()
    assert same(first, words)
    assert second.transformation.sizes == {"vectors": 4}
    assert same(read_features(path, like=first), words)
    with pytest.raises(ArgumentError, match=r"like must be Features of one source.*features\.split\(\)"):
        read_features(path, like=both)
    assert same(read_features(tmp_path / "both.npz", like=both), both)
    with pytest.raises(DataError, match=r"both\.npz has features of another transformation"):
        read_features(tmp_path / "both.npz", like=words)
    with pytest.raises(ArgumentError, match="like must be Features, got 7"):
        read_features(path, like=7)


def test_ids_are_written_as_those_of_the_data():
    features = Features.from_matrix(np.eye(3))
    texts = features.spell_ids(IdMap(["0", "x"]))
    assert list(texts.item_ids) == ["0", "1", "2"]
    assert list(texts.spell_ids(IdMap([7, 8])).item_ids) == [0, 1, 2]
    with pytest.raises(DataError, match="'07'"):  # another spelling: another item
        Features.from_matrix(np.eye(2), ["7", "07"]).spell_ids(IdMap([7, 8]))
    assert np.array_equal(texts.matrix, features.matrix)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "csv"}, "format must be one of auto, delimited"),
        ({"item": "sku"}, "there is no column 'sku', only 'id', 'year', 'genres', 'plot'"),
        ({"items": ["a"]}, "a table has ids in a column; leave out items"),
        ({"kinds": {"yeer": "number"}}, "kinds: there is no column 'yeer'.* did you mean 'year'"),
    ],
)
def test_options_that_do_not_fit_are_named(write, options, message):
    with pytest.raises((ArgumentError, DataError), match=message):
        read_features(write("a.csv", delimited(",")), **options)


def test_ids_that_repeat_or_are_missing_name_the_file(write):
    with pytest.raises(DataError, match=r"a\.csv: column 'id': ids must be distinct.*give one row for each item"):
        read_features(write("a.csv", "id,x\n1,2\n1,3\n"))
    with pytest.raises(DataError, match=r"b\.jsonl, line 2: 'id' is None, which is no id"):
        read_features(write("b.jsonl", '{"id": 1, "x": 2}\n{"x": 3}\n'), item="id")
    with pytest.raises(DataError, match=r"c\.csv: column 'id': row 1 has no id"):
        read_features(write("c.csv", "id,x\n1,2\n,3\n"))


@pytest.mark.data
def test_the_words_of_citeulike_are_recognised(shared):
    features = read_features(shared / "data/citeulike-t/mult.dat.gz", dims=2)
    assert features.n_items == 25_975
    assert int((~features.known).sum()) == 31
