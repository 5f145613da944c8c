"""Columns of ratings or counts that nobody asked for: read as positives, but not in silence."""

import warnings
from pathlib import Path

import polars as pl
import pytest

from spherec.data.cuts import Cut
from spherec.data.read import read
from spherec.data.read.formats import find_value
from spherec.errors import DataError, UnreadValuesWarning

RATED = "user,item,rating\nann,a,5\nbob,b,1\n"
MEANT = [
    *("rating", "Rating", "RATING", "ratings", "score", "stars", "overall", "value", "weight", "count", "plays"),
    *("Book-Rating", "user_rating", "starRating", "play_count", "playCount", "review score"),
    *("label", "is_click", "Quantity", "my_score"),
]
ANYTHING = ["", "title", "timestamp", "country", "account", "discount", "rank", "avg_rating", "viewCount", "评分"]


@pytest.mark.parametrize("name", [*MEANT, *ANYTHING])
def test_some_names_mean_a_value(name):
    assert find_value(["user", "when", name, "plays"]) == (name if name in MEANT else "plays")
    assert find_value(["user", name], [name]) is None


def test_the_warning_names_file_column_and_remedy_at_the_line_of_the_caller(write):
    path = write("a.csv", RATED)
    with pytest.warns(UnreadValuesWarning) as told:
        assert len(read(path)) == 2
    (one,) = told
    assert Path(one.filename) == Path(__file__)
    for part in (f"{path}: column 'rating' is not read", "value='rating'"):
        assert part in str(one.message)


def test_any_kind_of_table_is_looked_through(write, tmp_path):
    pl.DataFrame({"user": [1], "stars": [5], "item": ["a"]}).write_parquet(tmp_path / "a.parquet")
    files = {
        write("a.tsv.gz", "user\tstars\titem\nann\t5\ta\n"): {},
        write("a.txt", "ann::a::5\n"): {"header": ["user", "item", "stars"]},
        write("a.jsonl", '{"user": 1, "item": "a"}\n{"user": 2, "item": "b", "stars": 5}\n'): {},
        tmp_path / "a.parquet": {},
    }
    for path, how in files.items():
        with pytest.warns(UnreadValuesWarning, match="column 'stars'"):
            read(path, **how)


@pytest.mark.parametrize(
    ("text", "how"),
    [
        (RATED, {"value": "rating"}),
        (RATED, {"value": "rating", "cut": Cut(min_value=4)}),
        (RATED, {"cut": Cut(min_value=1)}),
        (RATED, {"item": "rating"}),
        # a single value is neither high nor low
        ("1::2::3::4\n", {"format": "movielens"}),
        ('"User-ID";"ISBN";"Book-Rating"\n"1";"x";"5"\n', {"format": "book-crossing"}),
        ("rating score stars\n", {"format": "adjacency"}),
    ],
)
def test_who_says_what_is_meant_is_told_nothing(write, text, how):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(write("a", text), **how)
        with pytest.raises(DataError, match="users with >= 9"):  # an error goes before a warning
            read(write("a.csv", RATED), cut=Cut(min_per_user=9))
