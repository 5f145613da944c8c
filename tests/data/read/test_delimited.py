import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherec import errors
from spherec.data.read import read_events
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


ODD_IDS = ["007", "7", "7.0", "1e3", " 7", "7 ", "true", "-0", "N/A", "0x10"]
PLAYS = 'u1\tm1\tThe "Who\t5\nu2\tm2\t"Heroes"\t3\n'
# Text, how it is read, rows.
READ = {
    **{
        f"separator {one}": (f"item{one or '::'}user\ni{one or '::'}u,v\n", {"separator": one}, [("u,v", "i")])
        for one in (" ", "^", "||", "<->", None)
    },
    "odd ids": ("user,item\n" + "".join(f"{one},{one}\n" for one in ODD_IDS), {}, [(one, one) for one in ODD_IDS]),
    "values": (
        *("user,item,v\na,b,5\na,c,-0.5\na,d,1e3\na,e,007\n", {"value": "v"}),
        [("a", "b", 5), ("a", "c", -0.5), ("a", "d", 1000), ("a", "e", 7)],
    ),
    "blank lines inside quotes": (
        *('user,item\n\na,"x\n\ny"\n\n\r\nb,"x\ny"\n', {}),
        [("a", "x\n\ny"), ("b", "x\ny")],
    ),
    "blank lines inside quotes, dropped rows": ('user,item\na,"x\n\ny"\nb,\n', {"missing": "drop"}, [("a", "x\n\ny")]),
    "blank lines above the header": ("\n\r\nuser,item\na,b\n", {}, [("a", "b")]),
    "a line break in the header": ('user,item,"note\n(free text)"\na,b,c\n', {}, [("a", "b")]),
    "a byte order mark": ("\ufeffuser,item\na,b\n", {}, [("a", "b")]),
    "no header": (
        "i|3|u\nj|4|v\n",
        {"header": ("what", "much", "who"), "user": "who", "item": "what", "value": "much"},
        [("u", "i", 3), ("v", "j", 4)],
    ),
    "no header, tabs": (
        PLAYS,
        {"header": ("user", "id", "artist", "plays"), "item": "artist", "value": "plays"},
        [("u1", 'The "Who', 5.0), ("u2", '"Heroes"', 3.0)],
    ),
    "no quotes": ('user,item\na,5" nail\nb,"x"\n', {"quotes": False}, [("a", '5" nail'), ("b", '"x"')]),
    "tabs, quoted header": ('"user"\t"item"\n"a"\t"b"\n', {}, [("a", "b")]),
    "tabs, plain header": ('user\titem\n"a"\tb"c\n', {}, [('"a"', 'b"c')]),
    "no end of the last line": ("user,item,rating\na,item1,3\nb,item2,4", {}, [("a", "item1"), ("b", "item2")]),
    "limit counts the rows that are read": (
        *("user,item\n\\N,x\na,b\nNULL,y\nc,d\ne,f\n", {"missing": "drop", "limit": 4}),
        [("a", "b"), ("c", "d")],
    ),
    **{
        f"begins like another format: {user}": (
            f"{user},i\nv,j\n",
            {"header": ("user", "item")},
            [(user, "i"), ("v", "j")],
        )
        for user in ("ARROW1", "BZhang", "BZh9", "SQLite format 3")
    },
}


@pytest.mark.parametrize(("text", "how", "expected"), READ.values(), ids=READ)
def test_cells_are_what_is_written(write, rows, text, how, expected):
    assert rows(write("a", text), **how) == expected


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
        events = read_events(path, Reading(value="rating", time="when", missing="drop"))
    assert list(events.user_ids) == ["u", "w"]
    assert (events.values.tolist(), events.times.tolist()) == ([2, 4], [2, 4])
    (step,) = events.steps
    assert step.name == "read, without 3 rows that have no user or item"
    assert step.pairs == 2


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


@pytest.mark.parametrize("size", [1, 10, 1 << 20])
@pytest.mark.parametrize(
    ("text", "how", "said"),
    [
        ("user,item,v\nu,i,1\nu,i,true\n", {"value": "v"}, "line 3: column 'v' is 'true"),
        ("user,item,v\nu,i,true\nu,i,1\n", {"value": "v"}, "line 3: column 'v' is '1"),
        ("user,item,t\nu,i,9\nu,i,1970-01-01\n", {"time": "t"}, "line 3: column 't' is '1970"),
        ("user,item,t\nu,i,1970-01-01\nu,i,9\n", {"time": "t"}, "line 3: column 't' is '9"),
        ("user,item\nu,i1\nu,i2\nu,i3,x\n", {}, "line 4: .*--no-quotes"),  # only the first row shows a short header
        ("user,item,item\na,b,c\n", {}, "2 columns are called 'item'"),
        ("user,item,rating\na,item1,3\nb,ite", {}, "line 3: 'b,ite' has 2 fields.*cut off"),
        ('user,item\na,5" nail\nb,"x"\n', {}, "line 2: .*--no-quotes"),
        ("user,item\na,x\nb,y\n   \n", {}, "line 4"),
        ("user,item\na,x\n   \nb,y\n", {}, "line 3"),
        ("user,item\na,x\r\n \t\r\nb,y\r\n", {}, "line 3"),
        (PLAYS, {}, "no column names.*--header user,item,rating,time"),
        (PLAYS, {"header": ("user", "artist", "plays"), "item": "artist"}, "line 1: 'u1.*' is not user, artist, plays"),
    ],
)
def test_errors_name_the_line_at_any_block_size(write, rows, blocks_of, text, how, said, size):
    with blocks_of(size), pytest.raises(errors.DataError, match=said):
        rows(write("a.csv", text), **how)
