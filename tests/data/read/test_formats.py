import numpy as np
import pytest

from spherec.data.cuts import Cut
from spherec.data.interactions import Interactions
from spherec.data.read import read, read_events
from spherec.data.read.formats import FORMATS, Reading
from spherec.errors import ArgumentError, DataError

BOOKS = (
    '"User-ID";"ISBN";"Book-Rating"\r\n"276725";"034545104X";"0"\r\n"276726";"Die \\"Blechtrommel\\"; Roman";"5"\r\n'
    '"276726";"0-österreich";"10"\r\n"276725";"034545104X";"7"\r\n'
)
USER, SONGS = "b80344d063b5ccb3212f76538f3d9e43d87dca9e", [("SOAKIMP12A8C130995", 1), ("SOBBMDR12A8C13253B", 2)]
SONGS.append((SONGS[0][0], 4))
# Format, content, rows of the file, value of each pair once merged.
OFFICIAL = {
    "book-crossing": (
        *("book-crossing", BOOKS.encode("latin-1")),
        [
            ("276725", "034545104X", 0),
            ("276726", 'Die "Blechtrommel"; Roman', 5),
            ("276726", "0-österreich", 10),
            ("276725", "034545104X", 7),
        ],
        [7, 10, 5],
    ),
    "echonest": (
        *("echonest", "".join(f"{USER}\t{song}\t{plays}\n" for song, plays in SONGS)),
        [(USER, song, plays) for song, plays in SONGS],
        [5, 2],
    ),
    "amazon-ratings": (
        *(
            "amazon-ratings",
            "A3R5OBKS7OM2IR,0001527665,5.0,13629\nA3R5OBKS7OM2IR,0001527665,2.0,10\nAH3QC2PC1VTGP,B00005U0JX,3.0,0\n",
        ),
        [
            ("A3R5OBKS7OM2IR", "0001527665", 5, 13629),
            ("A3R5OBKS7OM2IR", "0001527665", 2, 10),
            ("AH3QC2PC1VTGP", "B00005U0JX", 3, 0),
        ],
        [5, 3],
    ),
    "ratings.dat": (
        *("movielens", "1::1193::5::978300760\n1::1193::3::978300761\n2::661::3.5::1\n"),
        [("1", "1193", 5, 978300760), ("1", "1193", 3, 978300761), ("2", "661", 3.5, 1)],
        [3, 3.5],
    ),
    "u.data": (
        *("movielens", "196\t242\t3\t881250949\n186\t302\t4\t891717742\n"),
        [("196", "242", 3, 881250949), ("186", "302", 4, 891717742)],
        [4, 3],
    ),
}


@pytest.mark.parametrize(("format", "content", "expected", "merged"), OFFICIAL.values(), ids=OFFICIAL)
@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_official_files_are_read_row_by_row_and_merged_by_their_own_rule(
    write, rows, blocks_of, format, content, expected, merged, suffix, size
):
    path = write(f"a{suffix}", content)
    with blocks_of(size):
        assert rows(path, format=format) == rows(path) == expected
        events = read_events(path, Reading(format=format)).merge(FORMATS[format].duplicates)
        assert events.values.tolist() == merged  # by user, then by item
        assert len(read(path, format=format, cut=Cut(min_value=0))) == len(merged)  # and without a warning


@pytest.mark.parametrize("compress", [True, False])
def test_a_prepared_file_is_read_by_its_content_whatever_its_name_and_keeps_names(tmp_path, compress):
    data = Interactions.from_pairs(["u", "u", "v"], [1, 2, 3], times=[5, 6, 7]).with_item_names({1: "one"})
    data.save(tmp_path / "a.csv", compress=compress)
    assert read(tmp_path / "a.csv") == data
    cut = read(str(tmp_path / "a.csv"), cut=Cut(min_per_user=2))
    assert (list(cut.user_ids), list(cut.item_ids), cut.times.tolist()) == (["u"], [1, 2], [5, 6])
    assert cut.item_names == ("one", None)
    assert [step.name for step in cut.steps] == ["read", "users with >= 2 items"]


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


@pytest.mark.parametrize("said", [{"user": "who"}, {"value": "stars"}, {"separator": ","}, {"encoding": "latin-1"}])
@pytest.mark.parametrize("format", ["movielens", "echonest", "adjacency"])
def test_what_a_known_format_would_ignore_is_refused(write, format, said):
    with pytest.raises(ArgumentError, match=rf"'{format}' knows its own columns.*{next(iter(said.values()))}"):
        read(write("a", "1::2::3::4\n"), format=format, **said)


def test_what_a_prepared_file_would_ignore_is_refused(tmp_path):
    Interactions.from_pairs([1], [2]).save(tmp_path / "x.npz")
    with pytest.raises(ArgumentError, match=r"x\.npz is prepared .*leave out user='uid', duplicates='sum', name='n'"):
        read(tmp_path / "x.npz", user="uid", name="n", duplicates="sum")
    with pytest.raises(DataError, match="value >= 4"):
        read(tmp_path / "x.npz", cut=Cut(min_value=4))
    np.savez(tmp_path / "y.npz", x=np.arange(3))
    with pytest.raises(DataError, match=r"y\.npz is a zip archive"):  # of NumPy's own
        read(tmp_path / "y.npz")


@pytest.mark.parametrize(
    ("cut", "said"),
    [
        (Cut(min_per_user=9), r"a\.csv: nothing is left after 'users with >= 9 items'"),
        (Cut(min_value=4), "nothing is left after 'value >= 4'.*no value column was named"),
    ],
)
def test_a_file_that_is_cut_to_nothing_is_named(write, cut, said):
    with pytest.raises(DataError, match=said):
        read(write("a.csv", "user,item,rating\na,b,5\n"), cut=cut)
