import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherec import errors
from spherec.data.read import read, read_events, streaming
from spherec.data.read.formats import Reading

MISSING = ["", "NaN", "nan", "NA", "<NA>", "NULL", "null", "\\N", "None"]
CELL = st.text(
    st.sampled_from(',;|\t":\n\r 0aé日\\') | st.characters(exclude_characters="\0", exclude_categories=["Cs"]),
    max_size=6,
)
ID = CELL.filter(lambda text: text not in MISSING)
SIZES = st.integers(1, 60) | st.just(1 << 20)


@st.composite
def tables(draw):
    """A table as Python's csv module writes it, and its (user, item) pairs."""
    header = draw(st.permutations(["user", "item", *draw(st.sampled_from([[], ["note"], ["note", "a b"]]))]))
    separator = draw(st.sampled_from(",;|\t"))
    records = draw(
        st.lists(st.fixed_dictionaries({name: ID if name in ("user", "item") else CELL for name in header}), min_size=1)
    )
    bare = (
        draw(st.booleans()) and separator != "\t" and not any("\r" in cell for row in records for cell in row.values())
    )
    file = io.StringIO()
    writer = csv.DictWriter(
        file,
        header,
        delimiter=separator,
        lineterminator=draw(st.sampled_from(["\n", "\r\n"])),
        quoting=csv.QUOTE_MINIMAL if bare else csv.QUOTE_ALL,
    )
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue(), [(row["user"], row["item"]) for row in records]


@given(table=tables(), size=SIZES, suffix=st.sampled_from(["csv", "csv.gz"]))
def test_what_the_csv_module_wrote_comes_back_at_any_block_size(write, rows, blocks_of, table, size, suffix):
    text, pairs = table
    with blocks_of(size):
        assert rows(write(f"a.{suffix}", text)) == pairs


@pytest.mark.parametrize("separator", ["\t", ",", ";", "|", "::"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False], ids=["", "no-last-line-end"])
def test_usual_separators_are_found_by_themselves(write, rows, separator, end, last):
    lines = [("x y", "item", "user"), ("q", "i1", "u1"), ("", "i2", "u2")]
    text = end.join(separator.join(line) for line in lines) + end * last
    assert rows(write("a", text)) == [("u1", "i1"), ("u2", "i2")]


@pytest.mark.parametrize("separator", [" ", "^", "||", "<->"])
def test_other_separators_can_be_named(write, rows, separator):
    path = write("a", f"item{separator}user\ni{separator}u,v\n")
    assert rows(path, separator=separator) == [("u,v", "i")]


def test_ids_stay_the_strings_that_they_are(write, rows):
    ids = ["007", "7", "7.0", "1e3", " 7", "7 ", "true", "-0", "N/A", "0x10"]
    text = "user,item\n" + "".join(f"{one},{one}\n" for one in ids)
    assert rows(write("a.csv", text)) == [(one, one) for one in ids]


@pytest.mark.parametrize("blank", ["\n", "\r\n", "\n\n\r\n"])
@given(size=SIZES)
def test_blank_lines_are_no_records(write, rows, blocks_of, blank, size):
    text = f"user,item\n{blank}a,b\n{blank}c,d\n{blank}"
    with blocks_of(size):
        assert rows(write("a.csv", text)) == [("a", "b"), ("c", "d")]


def test_blank_lines_inside_quotes_are_part_of_the_id_though_those_between_records_are_not(write, rows):
    path = write("a.csv", 'user,item\n\na,"x\n\ny"\n\n\r\nb,"x\ny"\n')
    assert rows(path) == [("a", "x\n\ny"), ("b", "x\ny")]
    path = write("a.csv", 'user,item\na,"x\n\ny"\nb,\n')
    assert rows(path, missing="drop") == [("a", "x\n\ny")]


def test_blank_lines_above_the_header_are_skipped(write, rows):
    assert rows(write("a.csv", "\n\r\nuser,item\na,b\n")) == [("a", "b")]


def test_a_header_may_hold_a_line_break_in_quotes(write, rows):
    assert rows(write("a.csv", 'user,item,"note\n(free text)"\na,b,c\n')) == [("a", "b")]


def test_a_byte_order_mark_is_not_part_of_the_first_column(write, rows):
    assert rows(write("a.csv", "\ufeffuser,item\na,b\n")) == [("a", "b")]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1251"])
def test_other_encodings_can_be_named(write, rows, encoding):
    name = "жук" if encoding == "cp1251" else "käfer"
    assert rows(write("a.csv", f"user,item\nu,{name}\n", encoding), encoding=encoding) == [("u", name)]


@given(size=SIZES)
def test_quotes_are_plain_text_in_a_tab_separated_file_whose_header_has_none(write, rows, blocks_of, size):
    path = write("a.tsv", 'user\titem\nu\t12" single\nv\t"Heroes\nw\tx\n')
    with blocks_of(size):
        assert rows(path) == [("u", '12" single'), ("v", '"Heroes'), ("w", "x")]


def test_one_stray_quote_does_not_bind_a_long_tab_separated_file_into_one_record(write, rows, blocks_of, monkeypatch):
    monkeypatch.setattr(streaming, "_LONGEST_RECORD", 200)
    path = write("a.tsv", 'user\titem\nu\t12" single\n' + "v\tx\n" * 200)
    with blocks_of(50):
        assert len(rows(path)) == 201


def test_a_file_without_header_takes_the_columns_it_is_given(write, rows):
    columns = {"user": "who", "item": "what", "value": "much"}
    found = rows(write("a", "i|3|u\nj|4|v\n"), header=("what", "much", "who"), **columns)
    assert found == [("u", "i", 3), ("v", "j", 4)]


@given(size=SIZES, limit=st.integers(1, 12))
def test_limit_stops_after_so_many_rows_and_looks_no_further(write, rows, blocks_of, size, limit):
    good = [(f"u{n}", f"i{n}", float(n)) for n in range(10)]
    path = write("a.csv", "user,item,n\n" + "".join(f"{u},{i},{n}\n" for u, i, n in good) + "u,i,oops\n")
    with blocks_of(size):
        if limit <= len(good):
            assert rows(path, value="n", limit=limit) == good[:limit]
        else:
            with pytest.raises(errors.DataError, match=r"line 12: .*'oops'"):
                rows(path, value="n", limit=limit)


@pytest.mark.parametrize("word", MISSING)
@pytest.mark.parametrize("size", [1, 60, 1 << 20])
def test_rows_without_user_or_item_are_dropped_and_counted_on_request(write, blocks_of, word, size):
    path = write(
        "a.csv",
        f"user,item,rating,when\n{word},i,1,1\nu,i,2,2\nu,{word},3,3\n{word},{word},x,x\nw,k,4,4\n",
    )
    with blocks_of(size):
        events = read_events(path, Reading(user="user", item="item", value="rating", time="when", missing="drop"))
    assert list(events.user_ids) == ["u", "w"]
    assert (events.values.tolist(), events.times.tolist()) == ([2, 4], [2, 4])
    (step,) = events.steps
    assert step.name == "read, without 3 rows that have no user or item"
    assert step.pairs == 2


@pytest.mark.parametrize("user", ["ARROW1", "BZhang", "BZh9", "SQLite format 3"])
def test_an_id_like_the_first_bytes_of_another_format_is_read(write, rows, user):
    path = write("a.csv", f"{user},i\nv,j\n")
    assert rows(path, header=("user", "item")) == [(user, "i"), ("v", "j")]


@pytest.mark.parametrize(
    ("cells", "time_format", "seconds"),
    [
        (["0", "1377129600", "-1.5", "1e9"], None, [0, 1377129600, -1.5, 1e9]),
        (["1970-01-02", "2004-02-29"], None, [86400, 1078012800]),
        (["1970-01-01 00:00:01", "1970-01-01 00:00:01.250"], None, [1, 1.25]),
        (["1970-01-01T00:00:01", "1970-01-01T01:00:00"], None, [1, 3600]),
        (["1970-01-01T00:00:01Z", "1970-01-01T02:00:01+02:00"], None, [1, 1]),
        (["1970-01-01 00:00:01 UTC", "1970-01-01 00:00:01.250 UTC"], None, [1, 1.25]),
        (
            ["1970-01-02", "1970-01-01 00:00:01", "1970-01-01T00:01Z", "1970-01-01 00:01+0100"],
            None,
            [86400, 1, 60, -3540],
        ),
        (['"01 2, 1970"', '"12 31, 1969"'], "%m %d, %Y", [86400, -86400]),
        (["2.1.1970 06:00", "1.1.1970 00:30"], "%d.%m.%Y %H:%M", [108000, 1800]),
        (["19700102", "19700103"], "%Y%m%d", [86400, 172800]),
        (["1970-01-01 02:00 +0200", "1970-01-01 02:00 +0000"], "%Y-%m-%d %H:%M %z", [0, 7200]),
    ],
)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_times_are_numbers_or_become_seconds_since_1970(write, rows, blocks_of, cells, time_format, seconds, size):
    path = write("a.csv", "when,user,item\n" + "".join(f"{cell},u,i\n" for cell in cells))
    with blocks_of(size):
        assert [row[-1] for row in rows(path, time="when", time_format=time_format)] == seconds


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize(
    ("column", "cells", "bad"),
    [
        ("v", ["1", "true"], "true"),
        ("v", ["true", "1"], "1"),
        ("t", ["9", "1970-01-01"], "1970"),
        ("t", ["1970-01-01", "9"], "9"),
    ],
)
def test_the_first_row_says_what_cells_are_at_any_block_size(write, rows, blocks_of, column, cells, bad, size):
    path = write("a.csv", f"user,item,{column}\n" + "".join(f"u,i,{cell}\n" for cell in cells))
    with blocks_of(size), pytest.raises(errors.DataError, match=f"line 3: column '{column}' is '{bad}"):
        rows(path, **{"value" if column == "v" else "time": column})


@pytest.mark.parametrize("size", [10, 1 << 20])
def test_only_the_first_row_under_a_header_shows_that_this_is_one_name_short(write, rows, blocks_of, size):
    path = write("a.csv", "user,item\nu,i1\nu,i2\nu,i3,x\n")
    with blocks_of(size), pytest.raises(errors.DataError, match=r"line 4: .*--no-quotes"):
        rows(path)


def test_values_are_any_finite_numbers(write, rows):
    path = write("a.csv", "user,item,v\na,b,5\na,c,-0.5\na,d,1e3\na,e,007\n")
    assert [row[2] for row in rows(path, value="v")] == [5, -0.5, 1000, 7]


def test_repeated_pairs_without_a_stated_rule_are_told_at_the_line_of_the_caller(write):
    path = write("a.csv", "user,item\nu,i\nu,i\n")
    with pytest.warns(errors.DuplicatePairsWarning, match="1 of 2 events repeat") as told:
        assert len(read(path)) == 1
    assert Path(told[0].filename) == Path(__file__)


def test_a_file_without_header_gets_its_column_names_from_the_caller(write, rows):
    path = write("plays.tsv", 'u1\tm1\tThe "Who\t5\nu2\tm2\t"Heroes"\t3\n')
    names = ("user", "id", "artist", "plays")
    expected = [("u1", 'The "Who', 5.0), ("u2", '"Heroes"', 3.0)]
    assert rows(path, header=names, item="artist", value="plays") == expected
    with pytest.raises(errors.DataError, match=r"no column names.*--header user,item,rating,time"):
        rows(path)
    with pytest.raises(errors.DataError, match=r"line 1: 'u1.*' is not user, artist, plays; name the right format"):
        rows(path, header=("user", "artist", "plays"), item="artist")


def test_quotes_can_be_taken_for_ordinary_characters(write, rows):
    path = write("a.csv", 'user,item\na,5" nail\nb,"x"\n')
    with pytest.raises(errors.DataError, match=r"line 2: .*--no-quotes"):
        rows(path)
    assert rows(path, quotes=False) == [("a", '5" nail'), ("b", '"x"')]


def test_a_tab_separated_file_is_quoted_if_its_header_is(write, rows):
    assert rows(write("r.tsv", '"user"\t"item"\n"a"\t"b"\n')) == [("a", "b")]
    assert rows(write("plain.tsv", 'user\titem\n"a"\tb"c\n')) == [('"a"', 'b"c')]


def test_a_wanted_column_that_comes_twice_is_refused(write, rows):
    with pytest.raises(errors.DataError, match="2 columns are called 'item'; rename"):
        rows(write("a.csv", "user,item,item\na,b,c\n"))


def test_a_last_line_that_was_cut_off_is_refused(write, rows):
    with pytest.raises(errors.DataError, match=r"line 3: 'b,ite' has 2 fields.*cut off; fetch it again"):
        rows(write("a.csv", "user,item,rating\na,item1,3\nb,ite"))
    assert rows(write("a.csv", "user,item,rating\na,item1,3\nb,item2,4")) == [("a", "item1"), ("b", "item2")]


def test_limit_counts_the_rows_that_are_read(write, rows):
    path = write("a.csv", "user,item\n\\N,x\na,b\nNULL,y\nc,d\ne,f\n")
    assert rows(path, missing="drop", limit=4) == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize(
    ("text", "line"), [("a,x\nb,y\n   \n", 4), ("a,x\n   \nb,y\n", 3), ("a,x\r\n \t\r\nb,y\r\n", 3)]
)
def test_a_line_of_spaces_is_the_line_that_an_error_names(tmp_path, text, line):
    (tmp_path / "a.csv").write_bytes(b"user,item\n" + text.encode())
    with pytest.raises(errors.DataError, match=f"line {line}"):
        read(tmp_path / "a.csv")
