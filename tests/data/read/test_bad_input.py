"""Whatever is wrong with a file, the answer is one sentence: file, line or column, what is there, and what to do."""

import gzip
import io
import zipfile

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherec.data.read import read, read_events
from spherec.data.read.formats import Reading
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

LATIN = "user,item\nu,i\nu,é\n".encode("latin-1")
DAMAGED = "damaged or truncated gzip"
BOOKS = '"User-ID";"ISBN";"Book-Rating"\r\n"1";"a\\";b";"5"\r\n"1";"\\"c";"?"\r\n'
JOINED = '{"user": "u", "item": "i"}\n{"user": "user", "item": "item"}\n'
TRUE = '{"user": 1, "item": 2, "rating": 5}\n{"user": 1, "item": 2, "rating": true}\n'

# Content, and what of it the message names; read as a.csv. Or name, content, how it is read, what the message names.
OF_CSV = {
    # the file
    b"": "0 bytes",
    b" \t ": "no text",
    b"\n\r\n\n": "no text",
    "\ufeff": "no text",
    zipped(): "zip archive",
    GZIPPED[:-12]: DAMAGED,
    swapped(GZIPPED, 40): DAMAGED,
    swapped(GZIPPED, -6): DAMAGED,
    b"\x1f\x8b\x08": DAMAGED,
    b"user,item\na,\0\n": "line 2: a zero byte",
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR": "line 1.*0x89",
    b"BZh91AY&SY": "bzip2",
    b"\xfd7zXZ\0\0": "xz",
    b"\x93NUMPY\x01\0": "byte 0x93",
    b"\x80\x05\x95\0": "pickle",
    # the encoding
    LATIN: "line 3.*0xe9.*'latin-1'",
    GOOD.encode("utf-16"): "line 1.*0xff.*'utf-16'",
    b"user,item\nu,\xc3": "line 2.*0xc3",
    # columns and records
    "user\nu\n": "'item'.*'user'",
    "user,item\ru,i\rv,j\r": r"'item.*\\r",
    "user," + "x" * 200_000 + "\nu,i\n": "'item'",
    "user,item\n": "no rows",
    "user,item": "no rows",
    "user,item\nu,i\nuser,item\nu,j\n": "line 3.*several tables",
    "user,item\nu,i\nu,a,b\n": "line 3: 'u,a,b' has 3 fields.*2 columns",
    "user,item\nu,i\nu\n": "line 3: 'u' has 1 fields.*2 columns",
    "user,item,note\nu,i,x\nu,i\nu,i,y\n": "line 3: 'u,i' has 2 fields.*3 columns",
    "user,item,note\nu,i\n": "line 2: 'u,i' has 2 fields",
    'user,item\nu,i\nv,"j\nw,k\n': "line 3: 'v,\"j'.*quotes",
    'user,item\nu,i\nv,"j\n': "line 3: 'v,\"j'.*quotes",
    'user,item\nu,i\nv,"j"k\nw,k\n': "line 3.*quotes",
    'user,item\nu,i\nv,12"\nw,k\n': "line 3.*quotes",
    # ids
    **{
        f"user,item\nu,i\n{','.join(word if name == role else 'x' for name in ('user', 'item'))}\n": (
            f"line 3: column '{role}' is '{word}'.*missing='drop'"
        )
        for word in ("", "NaN", "NA", "null")
        for role in ("user", "item")
    },
    'user,item\nu,""\n': "line 2: column 'item' is ''",
}
BAD = {str(content)[-40:]: ("a.csv", content, {}, said) for content, said in OF_CSV.items()} | {
    "gzip of nothing": ("a.csv.gz", b"", {}, "no text"),
    "lists in Parquet": ("a.parquet", LISTS.getvalue(), {}, "row 0: column 'item'.*one a row"),
    "text as Parquet": ("a.parquet", GOOD.encode(), {"format": "parquet"}, "Parquet"),
    "truncated Parquet": ("a.parquet", PARQUET.getvalue()[:-20], {}, "Parquet"),
    "Parquet as text": ("a.csv", PARQUET.getvalue(), {"format": "delimited"}, "Parquet.*--format parquet"),
    "UTF-8 as ASCII": ("a.csv", "user,item\nu,é\n", {"encoding": "ascii"}, "ascii.*name its encoding"),
    # columns
    "no such column": ("a.csv", GOOD, {"user": "usr"}, "'usr'.*'item'.*did you mean 'user'"),
    "no such key": ("a.jsonl", '{"user": 1, "thing": 2}\n', {}, "'item'.*'thing'"),
    "no such Parquet column": ("a.pq", PARQUET.getvalue(), {"item": "itme"}, "'itme'.*did you mean 'item'"),
    "other separator": ("a.csv", GOOD, {"separator": ";"}, "'user'.*'user,item,rating,when'"),
    # records
    "a second header in JSON": ("a.jsonl", JOINED, {}, "line 2.*several tables"),
    "a second header in Parquet": ("a.parquet", HEADERS.getvalue(), {}, "row 1.*several tables"),
    "too few for a value": ("a.csv", "user,item,rating\nu,i,1\nu,j\n", RATED, "line 3.*2 fields"),
    "broken JSON": ("a.jsonl", '{"user": 1, "item": 2}\n{"user": 1,\n', {}, 'line 2.*{"user": 1,.*mend'),
    "JSON array": ("a.json", '[\n{"user": 1, "item": 2}\n]\n', {}, r"line 1: '\['.*jq -c"),
    "NaN in JSON": ("a.jsonl", '{"user": 1, "item": 2}\n{"user": NaN, "item": 2}\n', {}, "line 2.*nan"),
    "users without items": ("a.dat", "0\n0\n", {"format": "citeulike"}, "no rows"),
    # ids
    "no id in JSON": ("a.jsonl", '{"user": 1, "item": 2}\n{"user": null, "item": 2}\n', {}, "line 2.*'user'.*None"),
    "empty id in JSON": ("a.jsonl", '{"user": "", "item": "i"}\n', {}, "line 1.*'user'.*missing='drop'"),
    "no ids at all": ("a.csv", "user,item\nu,\nv,\n", {"missing": "drop"}, "all 2 rows.*name the right columns"),
    # ratings and times
    **{
        f"rating {word}": (
            "a.csv",
            f"user,item,rating\nu,i,1\nu,j,{word}\n",
            RATED,
            f"line 3: column 'rating' is '{word}'",
        )
        for word in ("", "five", "inf", "NaN", "1 000", "0x10", "true")
    },
    "rating in JSON": ("a.jsonl", '{"user": 1, "item": 2, "rating": "x"}\n', RATED, "line 1: column 'rating' is 'x'"),
    "true among ratings": ("a.jsonl", TRUE, RATED, "line 2: column 'rating' is True"),
    **{
        f"times {times}": (
            *("a.csv", "user,item,when\n" + "".join(f"u,{item},{one}\n" for item, one in enumerate(times)), DATED),
            f"line {line}: column 'when' is '{times[line - 2]}'",
        )
        for *times, line in [
            ("soon", "2004-01-01", 2),
            ("2004-01-01", "2004-02-30", 3),
            ("03/04/2004", 2),
            ("2004-01-01", "", 3),
            ("", "5", 2),
        ]
    },
    "date after dropped rows": (
        *("a.csv", "user,item,when\nu,,2004-01-01\nu,j,soon\n", {**DATED, "missing": "drop"}),
        "line 3: column 'when' is 'soon'",
    ),
    "date not in the format": (
        *("a.csv", 'user,item,when\nu,i,"01 2, 2004"\nu,j,"13 2, 2004"\n', {**DATED, "time_format": "%m %d, %Y"}),
        "line 3: column 'when' is '13 2, 2004'",
    ),
    # the formats of the field
    "not MovieLens": ("a", "1,2,3\n", {"format": "movielens"}, "line 1: '1,2,3' is not user, item, rating, time"),
    "MovieLens rating": ("a", "1::2::5::9\n1::3::x::9\n", {"format": "movielens"}, "line 2.*'rating' is 'x'"),
    "EchoNest long": ("a", "a\tb\t5\na\tc\t5\t6\n", {"format": "echonest"}, "line 2.*3 columns"),
    "not Book-Crossing": ("a", GOOD, {"format": "book-crossing"}, "'User-ID'.*'user,item,rating,when'"),
    "Book-Crossing rating": ("a", BOOKS, {"format": "book-crossing"}, r"line 3.*'Book-Rating' is '\?'"),
}


def the_sentence(error: SpherecError) -> str:
    """The message, after a look at whether it is one line and shows nothing of the machinery below."""
    message = str(error)
    assert "\n" not in message
    assert len(message) < 600
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__
    return message


@pytest.mark.parametrize(("name", "content", "how", "said"), BAD.values(), ids=BAD)
def test_one_sentence_names_file_place_value_and_remedy(write, name, content, how, said):
    path = write(name, content)
    with pytest.raises(DataError, match=said) as failure:
        read(path, duplicates="last", **how)
    message = the_sentence(failure.value)
    assert str(path) in message
    assert "; " in message  # before it what is wrong, after it what to do


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_files_that_are_not_there_and_folders_are_told_apart(tmp_path, name):
    with pytest.raises(DataError, match=r"No such file or directory.*; check the (path|file)") as failure:
        read(tmp_path / name)
    assert str(tmp_path / name) in the_sentence(failure.value)
    (tmp_path / name).mkdir()
    (tmp_path / name / "part.parquet").write_bytes(PARQUET.getvalue())
    with pytest.warns(UnreadValuesWarning):
        assert len(read(tmp_path / name))  # a folder stands for the files in it


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"format": "csv"}, "format.*'csv'"),
        ({"encoding": "utf-9"}, "encoding.*'utf-9'"),
        ({"encoding": "base64"}, "encoding.*'base64'"),
        ({"duplicates": "first"}, "duplicates.*'first'"),
        ({"user": "item"}, "column"),
    ],
    ids=str,
)
def test_arguments_are_refused_with_what_is_allowed(write, how, said):
    with pytest.raises(ArgumentError, match=said) as failure:
        read(write("a.csv", GOOD), **how)
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
        read_events(path, Reading(value="rating"))
    assert str(failure.value).startswith(f"{path}, line {line}: column 'rating' is 'bad', which is not a number; ")


@pytest.mark.parametrize("bad", ["u,i,4,2004-01-01,5", 'u,"i,4,2004-01-01'], ids=["fields", "quote"])
def test_the_line_that_does_not_parse_is_found_deep_in_a_large_file(write, bad):
    path = write("a.csv.gz", GOOD + "u,i,3,2004-01-01\n" * 100_000 + bad + "\n" + "u,i,3,2004-01-01\n" * 100_000)
    with pytest.raises(DataError, match="line 100011: "):
        read_events(path, Reading(value="rating", time="when"))
