"""Columns of ratings or counts that nobody asked for: read as positives, but not in silence."""

import json
import warnings
from pathlib import Path

import polars as pl
import pytest

from spherec.data.cuts import Cut
from spherec.data.read import read
from spherec.data.read.formats import find_value
from spherec.errors import DataError, UnreadValuesWarning

RATED = "user,item,rating\nann,a,5\nbob,b,1\n"


@pytest.mark.parametrize(
    "name",
    [
        *("rating", "Rating", "RATING", "ratings", "score", "stars", "overall", "value", "weight", "count", "plays"),
        *("Book-Rating", "user_rating", "starRating", "play_count", "playCount", "review score"),
        *("label", "is_click", "Quantity", "my_score"),
    ],
)
def test_names_that_mean_a_value(name):
    assert find_value(["u", "when", name, "i"]) == name


@pytest.mark.parametrize(
    "name", ["", "title", "timestamp", "country", "account", "discount", "rank", "avg_rating", "viewCount", "评分"]
)
def test_names_that_may_mean_anything(name):
    assert find_value(["u", name, "i"]) is None


def test_the_first_counts_and_none_that_has_a_role():
    assert find_value(["u", "i", "plays", "rating"]) == "plays"
    assert find_value(["weight", "value", "score", "x"], ("weight", "value", "score")) is None


def test_the_warning_names_file_column_and_remedy_at_the_line_of_the_caller(write):
    path = write("a.csv", RATED)
    with pytest.warns(UnreadValuesWarning) as told:
        assert len(read(path)) == 2
    (one,) = told
    assert Path(one.filename) == Path(__file__)
    for part in (f"{path}: column 'rating' is not read", "value='rating'"):
        assert part in str(one.message)


def parquet(path):
    pl.DataFrame({"user": [1, 2], "stars": [5, 1], "item": ["a", "b"]}).write_parquet(path)
    return path


def test_any_kind_of_table_is_looked_through(write, tmp_path):
    records = [{"user": 1, "item": "a", "text": "x", "stars": 5}, {"user": 2, "item": "b"}]
    files = {
        write("a.tsv.gz", "user\tstars\titem\nann\t5\ta\n"): {},
        write("a.txt", "ann::a::5\n"): {"header": ["user", "item", "stars"]},
        write("a.jsonl", "".join(json.dumps(one) + "\n" for one in records)): {},
        parquet(tmp_path / "a.parquet"): {},
    }
    for path, how in files.items():
        with pytest.warns(UnreadValuesWarning, match="column 'stars'"):
            read(path, **how)


@pytest.mark.parametrize(
    "how",
    [{"value": "rating"}, {"value": "rating", "cut": Cut(min_value=4)}, {"cut": Cut(min_value=1)}, {"item": "rating"}],
    ids=str,
)
def test_who_says_what_is_meant_is_told_nothing(write, how):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(write("a.csv", RATED), **how)


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("movielens", "userId,movieId,rating,timestamp\n1,2,3,4\n"),
        ("book-crossing", '"User-ID";"ISBN";"Book-Rating"\n"1";"x";"5"\n'),
        ("amazon-reviews", '{"reviewerID": "A", "asin": "B", "overall": 5.0, "unixReviewTime": 1, "score": 1}\n'),
        ("adjacency", "rating score stars\n"),
    ],
)
def test_known_formats_know_their_values(write, format, text):  # of which a single one is neither high nor low
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(write("a", text), format=format)


def test_the_warning_gives_way_to_an_error(write):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataError, match="users with >= 9"):
            read(write("a.csv", RATED), cut=Cut(min_per_user=9))
