"""Whatever is wrong with a file, the answer is one sentence: file, line or column, what is there, and what to do."""

import gzip
import io
import zipfile

import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spherec.data.cuts import Cut
from spherec.data.read import read, read_events
from spherec.data.read.options import Columns, Reading
from spherec.errors import ArgumentError, DataError, SpherecError, UnreadValuesWarning

GOOD = "user,item,rating,when\n" + "".join(f"u{n},i{n},{n},2004-01-{n + 1:02}\n" for n in range(9))
RATED = {"value": "rating"}
DATED = {"time": "when"}


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("ratings.csv", GOOD)
    return file.getvalue()


def swapped(raw: bytes, at: int) -> bytes:
    return raw[:at] + bytes([raw[at] ^ 0xFF]) + raw[at + 1 :]


GZIPPED = gzip.compress(GOOD.encode() * 50, mtime=0)
PARQUET = io.BytesIO()
pl.DataFrame({"user": [1, 2], "item": ["a", "b"], "rating": [1.0, 2.0]}).write_parquet(PARQUET)
LISTS = io.BytesIO()
pl.DataFrame({"user": [1], "item": [["a", "b"]]}).write_parquet(LISTS)
HEADERS = io.BytesIO()
pl.DataFrame({"user": ["u", "user"], "item": ["i", "item"]}).write_parquet(HEADERS)

# File, content, how it is read, what the message holds beside the path.
BAD = {
    # the file
    "0 bytes": ("a.csv", b"", {}, ["empty (0 bytes)"]),
    "gzip of nothing": ("a.csv.gz", b"", {}, ["no text"]),
    "blanks": ("a.csv", b" \t ", {}, ["no text"]),
    "line ends only": ("a.csv", b"\n\r\n\n", {}, ["no text"]),
    "line ends only, as JSON": ("a.jsonl", b"\n\r\n\n", {}, ["no "]),
    "byte order mark only": ("a.csv", "\ufeff", {}, ["no text"]),
    "byte order mark only, as JSON": ("a.jsonl", "\ufeff", {}, ["no text"]),
    "byte order mark only, as MovieLens": ("ratings.dat", "\ufeff ", {"format": "movielens"}, ["no text"]),
    "zip": ("a.csv", zipped(), {}, ["zip archive", "unpack it"]),
    "truncated gzip": ("a.csv", GZIPPED[:-12], {}, ["damaged or truncated gzip", "fetch it again"]),
    "gzip body": ("a.csv", swapped(GZIPPED, 40), {}, ["damaged or truncated gzip", "fetch it again"]),
    "gzip checksum": ("a.csv", swapped(GZIPPED, -6), {}, ["damaged or truncated gzip", "fetch it again"]),
    "gzip head": ("a.csv", b"\x1f\x8b\x08", {}, ["damaged or truncated gzip", "fetch it again"]),
    "gzipped twice": ("a.csv.gz", GZIPPED, {}, ["line 1", "0x8b"]),
    "zero bytes": ("a.csv", b"user,item\na,\0\n", {}, ["line 2", "not plain text"]),
    "picture": ("a.csv", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", {}, ["line 1", "0x89"]),
    "lists in Parquet": ("a.parquet", LISTS.getvalue(), {}, ["row 0", "'item'", "a row of its own"]),
    "text as Parquet": ("a.parquet", GOOD.encode(), {}, ["Parquet"]),
    "nothing as Parquet": ("a.parquet", b"", {}, ["Parquet"]),
    "truncated Parquet": ("a.parquet", PARQUET.getvalue()[:-20], {}, ["Parquet"]),
    "Parquet as text": ("a.csv", PARQUET.getvalue(), {"format": "delimited"}, ["Parquet", "--format parquet"]),
    "bzip2": ("a.csv", b"BZh91AY&SY", {}, ["bzip2", "unpack it"]),
    "xz": ("a.csv", b"\xfd7zXZ\0\0", {}, ["xz", "unpack it"]),
    "zstd": ("a.csv", b"\x28\xb5\x2f\xfd\0", {}, ["zstd", "unpack it"]),
    "SQLite": ("a.csv", b"SQLite format 3\0\x10", {}, ["SQLite database", "CSV"]),
    "Feather": ("a.csv", b"ARROW1\0\0\xff", {}, ["Feather", "Parquet"]),
    "array of NumPy": ("a.csv", b"\x93NUMPY\x01\0", {}, ["array of NumPy", "save_npz"]),
    "HDF5": ("a.csv", b"\x89HDF\r\n\x1a\n", {}, ["HDF5", "Parquet"]),
    "Avro": ("a.csv", b"Obj\x01\x04", {}, ["Avro", "Parquet"]),
    "pickle": ("a.csv", b"\x80\x05\x95\0", {}, ["pickle", "never read"]),
    # the encoding
    "latin-1 as UTF-8": ("a.csv", "user,item\nu,i\nu,é\n".encode("latin-1"), {}, ["line 3", "0xe9", "'latin-1'"]),
    "UTF-16 as UTF-8": ("a.csv", GOOD.encode("utf-16"), {}, ["line 1", "0xff", "first bytes say is 'utf-16'"]),
    "UTF-8 as ASCII": ("a.csv", "user,item\nu,é\n".encode(), {"encoding": "ascii"}, ["ascii", "name its encoding"]),
    "UTF-16 without mark": ("a.csv", GOOD.encode("utf-16-le"), {"encoding": "utf-16"}, ["utf-16", "name its encoding"]),
    "odd UTF-16": ("a.csv", GOOD.encode("utf-16")[:-1], {"encoding": "utf-16"}, ["utf-16", "name its encoding"]),
    "half a character": ("a.csv", b"user,item\nu,\xc3", {}, ["line 2", "0xc3"]),
    "surrogates": ("a.csv", b"user,item\nu,+2AA-\n", {"encoding": "utf-7"}, ["utf-7", "name its encoding"]),
    # the columns
    "no such column": ("a.csv", GOOD, {"user": "usr"}, ["'usr'", "'item'", "did you mean 'user'?"]),
    "no column like it": ("a.csv", GOOD, {"item": "Book"}, ["'Book'", "'rating'", "name the right one"]),
    "no such value column": ("a.csv", GOOD, {"value": "ratings"}, ["'ratings'", "did you mean 'rating'?"]),
    "no such key": ("a.jsonl", '{"user": 1, "thing": 2}\n', {}, ["'item'", "'thing'"]),
    "no keys": ("a.jsonl", "{}\n", {}, ["'user'"]),
    "no such Parquet column": ("a.pq", PARQUET.getvalue(), {"item": "itme"}, ["'itme'", "did you mean 'item'?"]),
    "other separator": ("a.csv", GOOD, {"separator": ";"}, ["'user'", "'user,item,rating,when'"]),
    "one column only": ("a.csv", "user\nu\n", {}, ["'item'", "'user'"]),
    "old Mac line ends": ("a.csv", "user,item\ru,i\rv,j\r", {}, ["line 1"]),
    "long header": ("a.csv", "user," + "x" * 200_000 + "\nu,i\n", {}, ["'item'"]),
    # the rows
    "header only": ("a.csv", "user,item\n", {}, ["no rows"]),
    "header without line end": ("a.csv", "user,item", {}, ["no rows"]),
    "header and blanks": ("a.csv", "user,item\n\n\r\n", {}, ["no rows"]),
    "a second header": (
        "a.csv",
        "user,item\nu,i\nuser,item\nu,j\n",
        {},
        ["line 3", "several tables", "missing='drop'"],
    ),
    "a second header in JSON": (
        "a.jsonl",
        '{"user": "u", "item": "i"}\n{"user": "user", "item": "item"}\n',
        {},
        ["line 2", "several tables", "missing='drop'"],
    ),
    "a second header in Parquet": ("a.parquet", HEADERS.getvalue(), {}, ["row 1", "several tables", "missing='drop'"]),
    "a header in an adjacency list": (
        "a.txt",
        "1 2\n\nuser item\n2 3\n",
        {"format": "adjacency"},
        ["line 3", "'user'", "several tables", "missing='drop'"],
    ),
    "too many fields": ("a.csv", "user,item\nu,i\nu,a,b\n", {}, ["line 3", "'u,a,b'", "2 columns"]),
    "too many, other columns": (
        "a.csv",
        "x,user,item\n1,u,i\nA, or B,u,j\n",
        {},
        ["line 3", "A, or B,u,j", "3 columns"],
    ),
    "too few fields": ("a.csv", "user,item\nu,i\nu\n", {}, ["line 3", "'item'", "''", "missing='drop'"]),
    "too few for a value": ("a.csv", "user,item,rating\nu,i,1\nu,j\n", RATED, ["line 3", "'rating'", "''"]),
    "unclosed quote": ("a.csv", 'user,item\nu,i\nv,"j\nw,k\n', {}, ["line 3", "'v,\"j'", "quotes"]),
    "unclosed quote at the end": ("a.csv", 'user,item\nu,i\nv,"j\n', {}, ["line 3", "'v,\"j'", "quotes"]),
    "text after a quote": ("a.csv", 'user,item\nu,i\nv,"j"k\nw,k\n', {}, ["line 3", "quotes"]),
    "quote inside a field": ("a.csv", 'user,item\nu,i\nv,12"\nw,k\n', {}, ["line 3", "quotes"]),
    "broken JSON": ("a.jsonl", '{"user": 1, "item": 2}\n{"user": 1,\n', {}, ["line 2", '{"user": 1,', "mend"]),
    "JSON array": ("a.json", '[\n{"user": 1, "item": 2}\n]\n', {}, ["line 1", "'['", "not a JSON object"]),
    "JSON over several lines": ("a.json", '{\n"lists": [\n', {}, ["line 1", "'{'", "jq -c"]),
    "NaN in JSON": ("a.jsonl", '{"user": 1, "item": 2}\n{"user": NaN, "item": 2}\n', {}, ["line 2", "NaN"]),
    "wrong count": ("a.dat", "1 5\n3 6 7\n", {"format": "citeulike"}, ["line 2", "'3'", "2 items"]),
    "users without items": ("a.dat", "0\n0\n", {"format": "citeulike"}, ["no rows"]),
    # the ids
    **{
        f"{word or 'empty'} as {role}": (
            "a.csv",
            f"user,item\nu,i\n{','.join(word if name == role else 'x' for name in ('user', 'item'))}\n",
            {},
            ["line 3", repr(role), repr(word), "missing='drop'"],
        )
        for word in ("", "NaN", "null")
        for role in ("user", "item")
    },
    "empty id in quotes": ("a.csv", 'user,item\nu,""\n', {}, ["line 2", "'item'", "missing='drop'"]),
    "no id in JSON": (
        "a.jsonl",
        '{"user": 1, "item": 2}\n{"user": null, "item": 2}\n',
        {},
        ["line 2", "'user'", "None"],
    ),
    "empty id in JSON": ("a.jsonl", '{"user": "", "item": "i"}\n', {}, ["line 1", "'user'", "missing='drop'"]),
    "no ids at all": ("a.csv", "user,item\nu,\nv,\n", {"missing": "drop"}, ["all 2 rows", "name the right columns"]),
    "no ids at all, with times": ("a.csv", "user,item,when\nu,,1\n", {"missing": "drop", **DATED}, ["all 1 rows"]),
    # ratings and times
    **{
        f"rating {word or 'empty'}": (
            "a.csv",
            f"user,item,rating\nu,i,1\nu,j,{word}\n",
            RATED,
            ["line 3", "'rating'", repr(word), "not a number"],
        )
        for word in ("", "five", "inf", "-inf", "NaN", "1 000", "0x10")
    },
    "rating with a comma": ("a.csv", "user;item;rating\nu;i;4,5\n", RATED, ["line 2", "'4,5'", "without commas"]),
    "rating with a carriage return": ("a.csv", "user,item,rating\nu,i\rj,x\n", RATED, ["line 2", "'rating'", "'x'"]),
    "rating in JSON": ("a.jsonl", '{"user": 1, "item": 2, "rating": "x"}\n', RATED, ["line 1", "'rating'", "'x'"]),
    "rating true": (
        *("a.jsonl", '{"user": 1, "item": 2, "rating": 5}\n{"user": 1, "item": 2, "rating": true}\n', RATED),
        ["line 2", "'rating'", "True"],
    ),
    "first date": ("a.csv", "user,item,when\nu,i,soon\nu,j,2004-01-01\n", DATED, ["line 2", "'when'", "'soon'"]),
    "later date": ("a.csv", "user,item,when\nu,i,2004-01-01\nu,j,2004-02-30\n", DATED, ["line 3", "'2004-02-30'"]),
    "all dates": ("a.csv", "user,item,when\nu,i,soon\nu,j,later\n", DATED, ["line 2", "'soon'", "time_format"]),
    "day or month first": (
        "a.csv",
        "user,item,when\nu,i,03/04/2004\n",
        DATED,
        ["line 2", "'03/04/2004'", "time_format"],
    ),
    "number among dates": ("a.csv", "user,item,when\nu,i,2004-01-01\nu,j,9\n", DATED, ["line 3", "'9'", "other rows"]),
    "no date": ("a.csv", "user,item,when\nu,i,2004-01-01\nu,j,\n", DATED, ["line 3", "'when'", "''"]),
    "no first number": ("a.csv", "user,item,when\nu,i,\nu,j,5\n", DATED, ["line 2", "'when'", "''"]),
    "date after dropped rows": (
        *("a.csv", "user,item,when\nu,,2004-01-01\nu,j,soon\n"),
        {**DATED, "missing": "drop"},
        ["line 3", "'when'", "'soon'"],
    ),
    "date not in the format": (
        *("a.csv", 'user,item,when\nu,i,"01 2, 2004"\nu,j,"13 2, 2004"\n'),
        {**DATED, "time_format": "%m %d, %Y"},
        ["line 3", "'when'", "'13 2, 2004'"],
    ),
    # the formats of the field
    "not MovieLens": (
        "ratings.dat",
        "1,2,3\n",
        {"format": "movielens"},
        ["line 1", "'1,2,3'", "user::item::rating::time"],
    ),
    "MovieLens rating": (
        *("ratings.dat", "1::2::5::9\n1::3::x::9\n"),
        {"format": "movielens"},
        ["line 2", "'rating'", "'x'"],
    ),
    "not EchoNest": ("a.txt", "a,b,5\n", {"format": "echonest"}, ["line 1", "'a,b,5'", "user, song, plays"]),
    "EchoNest short": ("a.txt", "a\tb\t5\na\tc\n", {"format": "echonest"}, ["line 2", "'plays'"]),
    "EchoNest long": ("a.txt", "a\tb\t5\na\tc\t5\t6\n", {"format": "echonest"}, ["line 2", "3 columns"]),
    "not Book-Crossing": ("a.csv", GOOD, {"format": "book-crossing"}, ["'User-ID'", "'user,item,rating,when'"]),
    "Book-Crossing rating": (
        *("a.csv", '"User-ID";"ISBN";"Book-Rating"\r\n"1";"a\\";b";"5"\r\n"1";"\\"c";"?"\r\n'),
        {"format": "book-crossing"},
        ["line 3", "'Book-Rating'", "'?'"],
    ),
    "not Amazon's ratings": ("a.csv", "a,b,5\n", {"format": "amazon-ratings"}, ["line 1", "'a,b,5'"]),
    "not Amazon's reviews": ("a.json", '{"user": 1}\n', {"format": "amazon-reviews"}, ["'reviewerID'", "'user'"]),
}


def the_sentence(error: SpherecError) -> str:
    """The message, after a look at whether it is one line and shows nothing of the machinery below."""
    message = str(error)
    assert "\n" not in message
    assert len(message) < 600
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__
    return message


@pytest.mark.parametrize(("name", "content", "how", "parts"), BAD.values(), ids=BAD)
def test_one_sentence_names_file_place_value_and_remedy(write, name, content, how, parts):
    path = write(name, content)
    with pytest.raises(DataError) as failure:
        read(path, duplicates="last", **how)
    message = the_sentence(failure.value)
    assert str(path) in message
    assert "; " in message  # before it what is wrong, after it what to do
    assert [part for part in parts if part not in message] == []


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_files_that_are_not_there_and_folders_are_told_apart(tmp_path, name):
    with pytest.raises(DataError, match=r"No such file or directory.*; check the (path|file)") as failure:
        read(tmp_path / name)
    assert str(tmp_path / name) in the_sentence(failure.value)
    (tmp_path / name).mkdir()
    (tmp_path / name / "part.parquet").write_bytes(PARQUET.getvalue())
    with pytest.warns(UnreadValuesWarning):
        assert len(read(tmp_path / name))  # a folder stands for the files in it


def test_a_path_that_no_system_knows_is_refused():
    with pytest.raises(ArgumentError, match="NUL"):
        read("a\0b.csv")


@pytest.mark.parametrize(
    ("how", "parts"),
    [
        ({"format": "csv"}, ["format", "'csv'", "delimited", "movielens"]),
        ({"separator": '"'}, ["separator"]),
        ({"separator": "\n"}, ["separator"]),
        ({"missing": "skip"}, ["missing", "'skip'", "drop"]),
        ({"encoding": "utf-9"}, ["encoding", "'utf-9'", "'latin-1'"]),
        ({"encoding": "rot13"}, ["encoding", "'rot13'"]),
        ({"encoding": "base64"}, ["encoding", "'base64'"]),
        ({"encoding": "latin\0"}, ["encoding"]),
        ({"duplicates": "first"}, ["duplicates", "'first'", "'last'", "'sum'"]),
    ],
    ids=str,
)
def test_arguments_are_refused_with_what_is_allowed(write, how, parts):
    path = write("a.csv", GOOD)
    with pytest.raises(ArgumentError) as failure:
        read(path, **how)
    message = the_sentence(failure.value)
    assert [part for part in parts if part not in message] == []


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_row_is_refused(limit):
    with pytest.raises(ArgumentError, match=rf"limit must be .*, got {limit}"):
        Reading(limit=limit)


@pytest.mark.parametrize(
    ("cut", "step"),
    [
        (Cut(min_value=6), "value >= 6"),
        (Cut(min_per_user=3), "users with >= 3 items"),
        (Cut(min_per_item=2), "items with >= 2 users"),
        (Cut(min_per_user=2, min_per_item=2, iterate=True), "until stable"),
    ],
    ids=str,
)
def test_a_cut_that_leaves_nothing_says_which_step_and_what_there_was(write, cut, step):
    path = write("a.csv", "user,item,rating\nu,i,1\nu,j,5\n")
    with pytest.raises(
        DataError, match=rf"nothing is left after '{step}.*2 pairs, values from 1 to 5\); lower"
    ) as failure:
        read(path, value="rating", cut=cut)
    the_sentence(failure.value)


@given(
    records=st.lists(
        st.tuples(
            st.sampled_from(["", "", "\n", "\r\n\n"]),
            st.sampled_from(["u", '"a\nb"', '"a""\n\nb"', "é", '"x,y"', "日"]),
        ),
        min_size=1,
        max_size=12,
    ),
    bad=st.integers(0, 11),
    size=st.integers(1, 80) | st.just(1 << 20),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_the_line_of_a_bad_cell_is_exact_after_blank_lines_and_line_breaks_in_quotes(
    write, blocks_of, records, bad, size, end
):
    bad %= len(records)
    text = f"user,item,rating{end}"
    for number, (blank, user) in enumerate(records):
        text += blank
        if number == bad:
            line = text.count("\n") + 1
        text += f"{user},i{number},{'bad' if number == bad else 5}{end}"
    path = write("a.csv", text)
    with blocks_of(size), pytest.raises(DataError) as failure:
        read_events(path, Reading(columns=Columns(value="rating")))
    assert str(failure.value).startswith(f"{path}, line {line}: column 'rating' is 'bad', which is not a number; ")


@pytest.mark.parametrize("bad", ["u,i,4,2004-01-01,5", 'u,"i,4,2004-01-01'], ids=["fields", "quote"])
def test_the_line_that_does_not_parse_is_found_deep_in_a_large_file(write, bad):
    path = write("a.csv.gz", GOOD + "u,i,3,2004-01-01\n" * 100_000 + bad + "\n" + "u,i,3,2004-01-01\n" * 100_000)
    with pytest.raises(DataError, match="line 100011: "):
        read_events(path, Reading(columns=Columns(value="rating", time="when")))


TEXTS = {
    "delimited": GOOD,
    "json-lines": '{"user": 1, "item": "a", "rating": 1.5}\n{"user": 2, "item": "b", "rating": 2}\n',
    "book-crossing": '"User-ID";"ISBN";"Book-Rating"\r\n"1";"a\\"b";"5"\r\n"2";"b;c";"0"\r\n',
    "echonest": "a\tb\t1\nc\td\t2\n",
    "amazon-ratings": "A,B,5.0,1362960000\nC,D,1.0,1362960001\n",
    "amazon-reviews": '{"reviewerID": "A", "asin": "B", "overall": 5.0, "unixReviewTime": 1}\n',
    "movielens": "1::2::3::4\n5::6::7::8\n",
    "netflix": "1:\n7,5,2005-09-06\n8,1,2005-09-07\n2:\n7,3,2005-09-06\n",
    "adjacency": "1 2 3\n4 5\n",
    "citeulike": "2 1 2\n1 3\n",
}
MATRIX = io.BytesIO()
sp.save_npz(MATRIX, sp.csr_array([[1, 0, 1], [0, 1, 0]]))
FILES = {name: text.encode() for name, text in TEXTS.items()} | {
    "auto": GZIPPED,
    "parquet": PARQUET.getvalue(),
    "scipy": MATRIX.getvalue(),
}
NOISE = st.binary(max_size=60) | st.text(',;|:\t"\r\n\\{}[]0a\x0c\x1f\u2028', max_size=60).map(str.encode)


@pytest.mark.filterwarnings("ignore::spherec.errors.UnreadValuesWarning")
@pytest.mark.filterwarnings("ignore::spherec.errors.UncutValuesWarning")
@pytest.mark.parametrize("format", sorted(FILES))
@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(
    noise=NOISE, data=st.data(), packed=st.booleans(), encoding=st.sampled_from(["utf-8", "utf-8", "latin-1", "utf-16"])
)
def test_no_content_ends_in_anything_but_data_or_an_error_of_our_own(write, format, noise, data, packed, encoding):
    good = FILES[format]
    at, until = sorted(data.draw(st.tuples(st.integers(0, len(good)), st.integers(0, len(good))), label="replaced"))
    content = data.draw(st.sampled_from([noise, good[:at] + noise + good[until:]]), label="content")
    path = write("a", gzip.compress(content) if packed else content)
    value = "rating" if format in ("auto", "delimited", "json-lines", "parquet") and data.draw(st.booleans()) else None
    try:
        data = read(path, format=format, value=value, encoding=encoding, duplicates="last")
    except SpherecError as error:
        the_sentence(error)
    else:
        assert len(data) > 0
