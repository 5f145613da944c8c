import json
from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest

from spherec.data.cuts import Cut
from spherec.data.interactions import Interactions
from spherec.data.read import read, read_events
from spherec.data.read.formats import FORMATS, Reading
from spherec.datasets import PAPER_DATASETS
from spherec.errors import ArgumentError, DataError


def reviews(*rows: tuple[str, str, float, int]) -> str:
    """Amazon's reviews, with the fields that they have beside the wanted ones."""
    names = ("reviewerID", "asin", "overall", "unixReviewTime")
    other = {"helpful": [2, 3], "reviewText": 'A "classic",\nreally', "style": {"Format:": "DVD"}}
    return "".join(json.dumps({**other, **dict(zip(names, row, strict=True))}) + "\n" for row in rows)


BX = (
    '"User-ID";"ISBN";"Book-Rating"\r\n'
    '"276725";"034545104X";"0"\r\n'
    '"276726";"Die \\"Blechtrommel\\"; Roman";"5"\r\n'
    '"276726";"0-österreich";"10"\r\n'
    '"276725";"034545104X";"7"\r\n'
)
# Format, file, content, encoding, rows in the file, value of each pair once merged.
OFFICIAL = [
    pytest.param(
        *("book-crossing", "BX-Book-Ratings.csv", BX, "latin-1"),
        [
            ("276725", "034545104X", 0),
            ("276726", 'Die "Blechtrommel"; Roman', 5),
            ("276726", "0-österreich", 10),
            ("276725", "034545104X", 7),
        ],
        {("276725", "034545104X"): 7, ("276726", 'Die "Blechtrommel"; Roman'): 5, ("276726", "0-österreich"): 10},
        id="book-crossing",
    ),
    pytest.param(
        *("echonest", "train_triplets.txt", 'b80"f\tSOAKIMP\t1\nb80"f\tSOBBMDR\t2\nb80"f\tSOAKIMP\t4\n', "utf-8"),
        [('b80"f', "SOAKIMP", 1), ('b80"f', "SOBBMDR", 2), ('b80"f', "SOAKIMP", 4)],
        {('b80"f', "SOAKIMP"): 5, ('b80"f', "SOBBMDR"): 2},
        id="echonest",
    ),
    pytest.param(
        *("amazon-ratings", "ratings_Movies_and_TV.csv"),
        *("A3R5,0001527665,5.0,1362960000\nA3R5,0001527665,2.0,1000000000\nAH3Q,B00,3.0,0\n", "utf-8"),
        [("A3R5", "0001527665", 5, 1362960000), ("A3R5", "0001527665", 2, 1e9), ("AH3Q", "B00", 3, 0)],
        {("A3R5", "0001527665"): 5, ("AH3Q", "B00"): 3},
        id="amazon-ratings",
    ),
    pytest.param(
        *("amazon-reviews", "reviews_Movies_and_TV_5.json"),
        *(reviews(("ADZ", "0005019281", 4.0, 1203984000), ("ADZ", "0005019281", 1.0, 1203983999)), "utf-8"),
        [("ADZ", "0005019281", 4, 1203984000), ("ADZ", "0005019281", 1, 1203983999)],
        {("ADZ", "0005019281"): 4},
        id="amazon-reviews",
    ),
    pytest.param(
        *("movielens", "ratings.dat", "1::1193::5::978300760\n1::1193::3::978300761\n2::661::3.5::1\n", "utf-8"),
        [("1", "1193", 5, 978300760), ("1", "1193", 3, 978300761), ("2", "661", 3.5, 1)],
        {("1", "1193"): 3, ("2", "661"): 3.5},
        id="movielens-dat",
    ),
    pytest.param(
        *("movielens", "ratings.csv"),
        *("userId,movieId,rating,timestamp\r\n1,296,5.0,1147880044\r\n1,306,3.5,1147868817\r\n", "utf-8"),
        [("1", "296", 5, 1147880044), ("1", "306", 3.5, 1147868817)],
        {("1", "296"): 5, ("1", "306"): 3.5},
        id="movielens-csv",
    ),
    pytest.param(
        *("movielens", "u.data", "196\t242\t3\t881250949\n186\t302\t3\t891717742\n", "utf-8"),
        [("196", "242", 3, 881250949), ("186", "302", 3, 891717742)],
        {("196", "242"): 3, ("186", "302"): 3},
        id="movielens-u.data",
    ),
]


@pytest.mark.parametrize(("format", "name", "text", "encoding", "expected", "merged"), OFFICIAL)
@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_official_files_are_read_row_by_row_and_merged_by_their_own_rule(
    write, rows, blocks_of, format, name, text, encoding, expected, merged, suffix, size
):
    path = write(name + suffix, text, encoding)
    with blocks_of(size):
        assert rows(path, format=format) == expected
        events = read_events(path, Reading(format=format)).merge(FORMATS[format].duplicates)
        pairs = zip(events.user_ids[events.users], events.item_ids[events.items], strict=True)
        assert dict(zip(pairs, events.values, strict=True)) == merged
        assert len(read(path, format=format, cut=Cut(min_value=0))) == len(merged)  # and without a warning


@pytest.mark.parametrize("name", ["a.tsv", "a.CSV", "a.txt", "a", "a.v2.csv.gz", "a.gz"])
def test_by_name_everything_unknown_is_delimited(write, rows, name):
    assert rows(write(name, "item\tuser\n1\t2\n")) == [("2", "1")]


@pytest.mark.parametrize("compress", [True, False])
def test_a_prepared_file_is_read_by_its_content_whatever_its_name(tmp_path, compress):
    data = Interactions.from_pairs(["u", "u", "v"], [1, 2, 1], times=[5, 6, 7]).with_item_names({1: "one"})
    data.save(tmp_path / "a.csv", compress=compress)
    assert read(tmp_path / "a.csv") == data
    cut = read(str(tmp_path / "a.csv"), cut=Cut(min_per_user=2))
    assert (list(cut.user_ids), list(cut.item_ids), cut.times.tolist()) == (["u"], [1, 2], [5, 6])
    assert [step.name for step in cut.steps] == ["read", "users with >= 2 items"]


def test_a_cut_of_a_prepared_file_keeps_the_names_of_its_items(tmp_path):
    Interactions.from_pairs(["u", "u", "v"], [1, 2, 3]).with_item_names({1: "one"}).save(tmp_path / "a.npz")
    assert read(tmp_path / "a.npz", cut=Cut(min_per_user=2)).item_names == ("one", None)


def test_an_archive_of_numpys_own_is_not_taken_for_a_prepared_file(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(3))
    with pytest.raises(DataError, match=r"a\.npz is a zip archive"):
        read(tmp_path / "a.npz")


def test_reading_cuts_after_merging_and_records_every_step(write):
    path = write("a.csv", "user,item,plays\nu,a,2\nu,b,9\nu,a,3\nv,a,9\nw,c,1\n")
    data = read(path, value="plays", duplicates="sum", cut=Cut(min_value=5, min_per_user=2))
    assert (list(data.user_ids), list(data.item_ids)) == (["u"], ["a", "b"])
    assert [(step.name, step.users, step.items, step.pairs) for step in data.steps] == [
        ("read", 3, 3, 5),
        ("merge repeated pairs (summed)", 3, 3, 4),
        ("value >= 5", 2, 2, 3),
        ("users with >= 2 items", 1, 2, 2),
    ]


def around_the_borders(least: int, per_user: int, per_item: int) -> Iterator[tuple[str, str, int, bool]]:
    """Events on both sides of the minima of value, items per user and users per item, each with whether it survives."""
    keepers = [f"keeper{n}" for n in range(max(per_item, 1))]
    for n in range(per_user):  # just enough of everything
        yield from ((keeper, f"shared{n}", least, True) for keeper in keepers)
        yield "grumbler", f"shared{n}", least - 1, False
    for n in range(per_user - 1):  # one item short, or just enough with an item that then falls out
        yield "newcomer", f"shared{n}", least, False
        yield "explorer", f"shared{n}", least, True
    yield "newcomer", "unliked", least - 1, False
    yield "explorer", "rare", least, not per_item
    yield from ((keeper, "niche", least, False) for keeper in keepers[1:])  # one user short,
    yield "grumbler", "niche", 0, False  # which a low value does not make up for


def written(format: str, events: list[tuple[str, str, int]]) -> str:
    match format:
        case "book-crossing":
            return "".join(f'"{u}";"{i}";"{v}"\r\n' for u, i, v in [("User-ID", "ISBN", "Book-Rating"), *events])
        case "echonest":
            return "".join(f"{u}\t{i}\t{v}\n" for u, i, v in events)
        case "amazon-ratings":
            return "".join(f"{u},{i},{v}.0,{n}\n" for n, (u, i, v) in enumerate(events))
        case "amazon-reviews":
            return reviews(*((u, i, float(v), n) for n, (u, i, v) in enumerate(events)))


@pytest.mark.parametrize(
    ("preset", "name", "minima", "survive", "fall"),
    [  # the last two: values that come for one pair in this order, with which it passes, or does not
        ("book-crossing", "BX-Book-Ratings.csv", (4, 20, 0), (0, 4), (10, 3)),
        ("echonest", "train_triplets.txt.gz", (5, 21, 5), (2, 3), (2, 2)),
        ("amazon-movies", "ratings_Movies_and_TV.csv", (5, 20, 0), (1, 5), (5, 4)),
        ("amazon-movies", "reviews_Movies_and_TV_5.json.gz", (5, 20, 0), (1, 5), (5, 4)),
    ],
)
def test_presets_keep_exactly_what_reaches_their_minima(write, preset, name, minima, survive, fall):
    preset = PAPER_DATASETS[preset]
    keepers = [f"keeper{n}" for n in range(max(minima[2], 1))]
    again = [(keeper, "again", value, True) for value in survive for keeper in keepers]
    regret = [(keeper, "regret", value, False) for value in fall for keeper in keepers]
    events = [*around_the_borders(*minima), *again, *regret]
    path = write(name, written(preset.format_of(name), [event[:3] for event in events]), "latin-1")
    data = read(path, format=preset.format_of(str(path)), cut=preset.cut)
    pairs = {(data.user_ids[u], data.item_ids[i]) for u, i in zip(data.users, data.indices, strict=True)}
    assert pairs == {(user, item) for user, item, _, survives in events if survives}


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("ratings_Movies_and_TV.csv", "amazon-ratings"),
        ("Movies_and_TV_5.json", "amazon-reviews"),
        ("data/Movies_and_TV_5.json.gz", "amazon-reviews"),
        ("Movies_and_TV.JSON", "amazon-reviews"),
        ("Movies_and_TV.jsonl", "amazon-reviews"),
    ],
)
def test_amazons_two_kinds_of_files_are_told_by_their_names(name, format):
    assert PAPER_DATASETS["amazon-movies"].format_of(name) == format


def test_presets_are_those_of_the_papers_table_1():
    assert {name: (one.paper.users, one.paper.items, one.paper.pairs) for name, one in PAPER_DATASETS.items()} == {
        "book-crossing": (3_593, 127_339, 240_020),
        "amazon-movies": (11_181, 94_661, 620_059),
        "echonest": (31_521, 159_063, 1_405_671),
    }
    for one in PAPER_DATASETS.values():
        assert 100 * one.paper.pairs / one.paper.users / one.paper.items == pytest.approx(
            one.paper.density_percent, abs=6e-4
        )


@pytest.mark.parametrize("said", [{"user": "who"}, {"value": "stars"}, {"separator": ","}, {"encoding": "latin-1"}])
@pytest.mark.parametrize("format", ["movielens", "echonest", "amazon-reviews", "adjacency"])
def test_what_a_known_format_would_ignore_is_refused(write, format, said):
    with pytest.raises(ArgumentError, match=rf"'{format}' knows its own columns.*{next(iter(said.values()))}"):
        read(write("a", "1::2::3::4\n"), format=format, **said)


def test_a_file_that_is_cut_to_nothing_is_named(write):
    with pytest.raises(DataError, match=r"a\.csv: nothing is left after 'users with >= 9 items'"):
        read(write("a.csv", "user,item\na,b\n"), cut=Cut(min_per_user=9))


def test_amazons_files_of_2018_are_not_read_transposed(write):
    path = write("Movies_and_TV.csv", "0001527665,A3478QRKQDOPQ2,5.0,1362960000\n")
    assert list(read(path, format="amazon-ratings").user_ids) == ["A3478QRKQDOPQ2"]


def test_parquet_is_known_by_its_content(write, tmp_path):
    pl.DataFrame({"user": [1], "item": ["a"]}).write_parquet(tmp_path / "part-00000")
    assert list(read(tmp_path / "part-00000").item_ids) == ["a"]


def test_what_is_said_about_a_prepared_file_is_refused(tmp_path):
    Interactions.from_pairs([1], [2]).save(tmp_path / "x.npz")
    assert len(read(tmp_path / "x.npz")) == 1
    with pytest.raises(ArgumentError, match=r"x\.npz is prepared .*leave out user='uid', duplicates='sum'"):
        read(tmp_path / "x.npz", user="uid", duplicates="sum")
    with pytest.raises(DataError, match="value >= 4: interactions hold no values any more"):
        read(tmp_path / "x.npz", cut=Cut(min_value=4))


def test_a_minimum_without_a_value_column_says_what_it_counted(write):
    with pytest.raises(DataError, match=r"nothing is left after 'value >= 4'.*no value column was named"):
        read(write("a.csv", "user,item,rating\na,b,5\n"), cut=Cut(min_value=4))


def test_a_format_that_is_not_known_is_refused(write):
    with pytest.raises(ArgumentError, match=r"adjacency.*got 'csv'"):
        read(write("a", "1 2\n"), format="csv")
