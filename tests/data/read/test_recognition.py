"""`auto` knows the public files of the field by their content, and says what it took a file for."""

import json
from datetime import datetime

import polars as pl
import pytest

from spherec.data.cuts import Cut
from spherec.data.read import read, read_events
from spherec.data.read.formats import Reading
from spherec.errors import DataError, UncutValuesWarning, UnreadValuesWarning

# What it is read as, content, first row.
KNOWN = {
    "LightGCN": ("LightGCN train.txt", "0 5 6 7\n1 8\n2\n3 5 9\n", ("0", "5")),
    "CiteULike": ("CiteULike users.dat", "4 193 11908 12727 14760\n3 1 2 3\n0\n3 7 8 9\n", ("0", "193")),
    "RecBole": (
        "RecBole .inter",
        "user_id:token\titem_id:token\trating:float\ttimestamp:float\n196\t242\t3\t881250949\n",
        ("196", "242", 3, 881250949),
    ),
    "Amazon 2018": (
        "Amazon ratings of 2018",
        "0001527665,A3478QRKQDOPQ2,5.0,1362960000\nB00005U0JX,A2VHSG6TZHU1OB,5.0,1361145600\n",
        ("A3478QRKQDOPQ2", "0001527665", 5, 1362960000),
    ),
    "Amazon 2023": (
        "JSON lines",
        json.dumps({"rating": 5.0, "asin": "B1", "parent_asin": "B0", "user_id": "AE", "timestamp": 1588687728923})
        + "\n",
        ("AE", "B0", 5, 1588687728923),
    ),
    "Yelp": (
        "JSON lines",
        json.dumps({"review_id": "r", "user_id": "u", "business_id": "b", "stars": 5.0, "date": "2018-07-07 22:09:11"})
        + "\n",
        ("u", "b", 5, 1531001351),
    ),
    "events of shops": (
        "a table",
        "event_time,event_type,product_id,category_id,price,user_id,user_session\n"
        "2019-10-01 00:00:00 UTC,view,44600062,2103807459595387724,35.79,541312140,72d76fde\n",
        ("541312140", "44600062", 1569888000),
    ),
    "spaces": ("a table", "uid iid time\nu1 i1 7\n", ("u1", "i1", 7)),
    "pairs": ("pairs", "1\t7\n1\t8\n2\t7\n", ("1", "7")),
}


@pytest.mark.parametrize(("title", "content", "row"), KNOWN.values(), ids=KNOWN)
@pytest.mark.parametrize("name", ["user", "users.csv", "x-users.txt.gz"])
def test_a_public_file_is_known_by_its_content_under_any_name(write, rows, title, content, row, name):
    path, notes = write(name, content), []
    assert rows(path, report=notes.append)[0] == row
    assert [note for note in notes if note.startswith(f"{path}: read as {title} (")], notes
    data = read(path, cut=Cut(min_value=0)) if len(row) > 2 else read(path)
    assert data.steps[0].name.startswith(f"read as {title}")


# Whatever is not plain is an error that names the options which decide.
UNDECIDED = {
    "three numbers": "1 2 3\n4 5 6\n",
    "three numbers, by commas": "1,2,5\n1,3,4\n",
    "spaces inside fields": "1\tU1\t11/11/2019 9:05:58 AM\tN1 N21 N3\tN31-1 N41-0\n",
    "dates and ids in hexadecimal digits": "user_01\t2009-05-04T23:08:57Z\tf1b1cf71-bd35-4e99\tDeep\tx\ty\n",
    "one number": "1\n2\n3\n",
    "counts or users": "1 7\n2 8 9\n3 4 5 6\n",
    "all counts are 1": "1 7\n1 8\n1 9\n",
    "repeated users": "1 7 8 9\n2 5\n1 6 4\n",
}


@pytest.mark.parametrize("content", UNDECIDED.values(), ids=UNDECIDED)
def test_what_may_be_several_things_is_refused_with_the_formats_to_choose_from(write, content):
    path = write("a.txt", content)
    with pytest.raises(DataError) as failure:
        read(path)
    message = str(failure.value)
    for part in (f"{path}, line 1: ", repr(content.split("\n")[0]), "--format", "--header", "adjacency, citeulike"):
        assert part in message
    assert len(message) < 600


def test_a_table_without_names_is_read_under_a_header_and_spaces(write, rows):
    assert rows(write("a", "1 2 3\n4 5 6\n"), header=("user", "item", "x")) == [("1", "2"), ("4", "5")]


def test_spaces_in_the_name_of_a_column_are_shown(write, rows):
    notes: list[str] = []
    assert rows(write("a.csv", "user, item\nu, i\n"), report=notes.append) == [("u", " i")]
    assert "item: ' item'" in notes[0]


@pytest.mark.parametrize(
    "user", ["userId", "user_id", "USER ID", "uid", "User-ID", "reviewerID", "customer_id", "user_procid"]
)
@pytest.mark.parametrize(
    "item", ["movieId", "item_id", "itemid", "asin", "artistID", "ISBN", "item_procid", "business_id"]
)
def test_usual_names_of_columns_are_known_where_the_default_ones_are_absent(write, rows, user, item):
    assert rows(write("a.csv", f"{item},{user}\ni,u\n")) == [("u", "i")]


def test_default_names_go_before_usual_ones_and_named_columns_before_both(write, rows):
    path = write("a.csv", "user,userId,item,movieId\n1,2,3,4\n")
    assert rows(path) == [("1", "3")]
    assert rows(path, user="userId", item="movieId") == [("2", "4")]


def test_usual_names_in_json_and_parquet(write, rows, tmp_path):
    assert rows(write("a.jsonl", '{"uid": 1, "sku": "x"}\n')) == [(1, "x")]
    table = {"userId": [1, 1], "movieId": [2, 3], "rating": [5.0, 1.0], "tags": [["a"], None]}
    pl.DataFrame({**table, "timestamp": [7, 8]}).write_parquet(tmp_path / "a")
    assert rows(tmp_path / "a") == [(1, 2, 5, 7), (1, 3, 1, 8)]
    pl.DataFrame({**table, "date": [datetime(2018, 7, 7, 22, 9, 11)] * 2}).write_parquet(tmp_path / "b")
    assert rows(tmp_path / "b")[0] == (1, 2, 5, 1531001351)


NAMED = {"header": ("user", "item", "x")}


@pytest.mark.parametrize(
    ("text", "how", "said"),
    [
        (
            "userId,artist_id,track_id\n1,2,3\n",
            {},
            "'artist_id' and 'track_id' both look like the item; .*--item-column",
        ),
        ('"User-ID";"Age"\n"1";"7"\n', {}, "there is no column 'item', only 'User-ID', 'Age'"),
        *(
            (f"{first}\n1,2,3\n", NAMED, f"line 1: '{first}'")
            for first in ("user,item,x", "userId,movieId,r", "iid,uid,n")
        ),
        ("user,item,rating\n0,u,i,5\n1,v,j,4\n", {}, "line 2: .*index without a name.*index=False"),
        ("user\titem\n0\tu\ti\n", {}, "line 2: .*index without a name.*index=False"),
        ("{u'username': u'Chaos', u'product_id': u'7'}\n", {"format": "json-lines"}, "Python's notation; write json"),
    ],
)
def test_a_wrong_layout_is_noticed(write, rows, text, how, said):
    with pytest.raises(DataError, match=said):
        rows(write("a", text), **how)


# --- Nothing vanishes


@pytest.mark.parametrize(
    ("format", "text", "empty"),
    [
        ("citeulike", "2 10 11\n0\n\n1 10\n", 2),
        ("adjacency", "5 10 7\n6\n7 11\n\n", 2),
        ("adjacency", "5 10\n7 11\n", 0),
    ],
)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_lines_without_items_are_counted_and_said(write, blocks_of, format, text, empty, size):
    notes = []
    with blocks_of(size):
        events = read_events(write("a", text), Reading(format=format, report=notes.append))
    assert events.steps[0].name == (f"read, without {empty} lines that have no items" if empty else "read")
    assert len(notes) == bool(empty)


@pytest.mark.parametrize(
    ("text", "low", "high", "least"),
    [
        ("1::2::5::9\n1::3::1::9\n", 1, 5, 4),
        ("user_id,item_id,clicked\n1,2,1\n1,3,0\n", 0, 1, 1),
        ("userId,movieId,stars\n1,2,5\n1,3,1\n", 1, 5, 4),
        ('{"uid": 1, "iid": "2", "voted_up": true}\n{"uid": 1, "iid": "3", "voted_up": false}\n', 0, 1, 1),
    ],
)
def test_low_values_count_as_likes_but_not_without_a_word(write, text, low, high, least):
    path = write("a", text)
    said = rf"from {low} to {high} all count as likes.*Cut\(min_value={least}\)"
    with pytest.warns(UncutValuesWarning, match=said):
        assert len(read(path)) == 2
    assert list(read(path, cut=Cut(min_value=least)).item_ids) == ["2"]
    if "::" in text:
        with pytest.warns(UncutValuesWarning, match=said):
            assert len(read(path, format="movielens")) == 2


@pytest.mark.parametrize("name", ["tag-item.dat", "citations.dat", "a.dat"])
def test_counted_lists_that_are_not_called_those_of_users_are_not_taken_for_them(write, name):
    path = write(name, KNOWN["CiteULike"][1])
    with pytest.raises(DataError, match=r"name .*--format"):
        read(path)
    assert read(path, format="citeulike").n_users == 3


# --- What a first look at a public file must not miss


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("timestamp,visitorid,event,itemid\n1,2,view,3\n2,2,transaction,4\n", "view, transaction in column 'event'"),
        ("user_id,item_id,interaction\n1,2,like\n1,3,dislike\n", "like, dislike in column 'interaction'"),
        ("user,item,action\n1,2,like\n1,3,skip\n", "like, skip in column 'action'"),
        ("user,item,event\n1,2,view\n1,3,view\n", ""),  # no news
        ('1,"The, Game",purchase,1.0,0\n1,"The, Game",play,27.0,0\n', "purchase and play in column 'behaviour'"),
    ],
)
def test_kinds_of_events_that_all_count_are_told(write, rows, text, kinds):
    path, notes = write("events.csv", text), []
    rows(path, report=notes.append)
    if not kinds:
        assert notes == []
        return
    assert f"{path}: {kinds} all count as positives; say what each weighs with" in " ".join(notes)
    with pytest.warns(UnreadValuesWarning, match="all count as positives"):
        read(path, duplicates="sum")


def test_a_column_of_times_that_was_only_found_may_be_missing(write, rows):
    path, notes = write("a.csv", "user_id,video_id,time\n" + "1,2,2020-07-05\n" * 150 + "1,3,\n"), []
    assert len(rows(path, report=notes.append)[0]) == 2
    assert f"{path}: column 'time' is not read, because not all of its cells are times" in notes
    with pytest.raises(DataError, match="line 152: column 'time' is"):
        rows(path, user="user_id", item="video_id", time="time")
