import json
import runpy
from pathlib import Path

import polars as pl
import pytest

from spherec.data.read import parquet, read_names
from spherec.errors import DataError


def test_names_are_read_by_column_and_the_last_of_an_id_wins(write):
    text = 'name,year,id\n"Stalker, or: the ""Zone""",1979,007\nSolaris,1972,8\nSolyaris,1972,8\n,1966,9\nlost,1,\n'
    expected = {"007": 'Stalker, or: the "Zone"', "8": "Solyaris"}
    assert read_names(write("a.csv.gz", text), id="id", name="name") == expected


def test_names_in_tab_separated_files_may_hold_quotes_and_other_encodings(write):
    path = write("artists.dat", 'id\tname\turl\n1\t"Weird Al" Yankovic\t-\n2\tBjörk 12"\t-\n', "latin-1")
    names = read_names(path, id="id", name="name", encoding="latin-1")
    assert names == {"1": '"Weird Al" Yankovic', "2": 'Björk 12"'}


def book(isbn: bytes, title: bytes, author: bytes, year: bytes = b"1999") -> bytes:
    return b";".join(b'"%s"' % cell for cell in (isbn, title, author, year)) + b"\r\n"


@pytest.mark.parametrize(
    ("title", "author", "name"),
    [
        (b"Emma", b"Jane Austen", "Emma — Jane Austen"),
        (b"Tom &amp; Jerry ", b"A &lt;B&gt;", "Tom & Jerry — A <B>"),
        (b'The \\"Real\\" Thing; or not', b"T. S.", 'The "Real" Thing; or not — T. S.'),
        (b"Caf\xc3\xa9", b"Ren\xe9", "Café — René"),
        (b"Am\xc3?\xc2\xa9lie", b"\xc3?\xc2\xbc", "Amélie — ü"),
        (b"L\xc3?\xc2?ge", b"X", "L\ufffdge — X"),
        (b"Anonymous", b"", "Anonymous"),
        (b"", b"Nobody", None),
    ],
    ids=["plain", "html", "escaped", "utf8-and-latin1", "encoded-twice", "lost", "no-author", "no-title"],
)
def test_book_crossing_names_are_title_and_author_with_accents_mended(write, title, author, name):
    header = book(b"ISBN", b"Book-Title", b"Book-Author", b"Year-Of-Publication")
    books = book(b"1", title, author) + book(b"", b"Lost", b"One") + book(b"2", b"Next", b"One")
    path = write("BX-Books.csv", header + books)
    script = runpy.run_path(str(Path(__file__).parents[3] / "scripts" / "build_book_crossing.py"))
    assert script["name_books"](path) == ({"1": name} if name else {}) | {"2": "Next — One"}
    assert read_names(path)["2"] == "Next"


def test_names_come_from_json_lines_and_parquet_too(write, tmp_path, monkeypatch):
    objects = [{"asin": "a", "title": "A", "x": [1]}, {"asin": 7, "title": "Seven"}, {"asin": "n"}]
    lines = write("meta.json.gz", "".join(f"{json.dumps(one)}\n" for one in objects))
    assert read_names(lines, id="asin", name="title") == {"a": "A", "7": "Seven"}
    monkeypatch.setattr(parquet, "_ROWS", 3)
    pl.DataFrame({"asin": [*range(7), 0, 9], "title": [*"abcdefg", "z", None]}).write_parquet(tmp_path / "a.parquet")
    expected = dict(zip("0123456", "zbcdefg", strict=True))
    assert read_names(tmp_path / "a.parquet", id="asin", name="title") == expected


# Content, encoding, names.
TABLES = {
    "movies.dat": (
        "1::Toy Story (1995)::Animation|Comedy\n2::Léon: 1994::Crime\n",
        "latin-1",
        {"1": "Toy Story (1995)", "2": "Léon: 1994"},
    ),
    "movies.dat in UTF-8": ("1::Léon (1994)::Crime\n", "utf-8", {"1": "Léon (1994)"}),
    "movies.csv": ('movieId,title,genres\n1,"Léon, or: (1994)",Crime\n', "utf-8", {"1": "Léon, or: (1994)"}),
    "u.item": (
        "1|Toy Story (1995)|01-Jan-1995||http://x?(1995)|0|0\n2|Lé|01|||0|1\n",
        "latin-1",
        {"1": "Toy Story (1995)", "2": "Lé"},
    ),
    "item_list.txt": ("org_id remap_id\n0553092626 0\n0393316041 1\n", "utf-8", {"0": "0553092626", "1": "0393316041"}),
    "artists.dat": ("id\tname\turl\n1\tMALICE\tx\n", "utf-8", {"1": "MALICE"}),
    "RecBole .item": ("item_id:token\tmovie_title:token_seq\n1\tToy\n", "utf-8", {"1": "Toy"}),
    "meta.json": ('{"asin": "B", "title": "T", "price": 5}\n', "utf-8", {"B": "T"}),
    "an id and an ISBN": ("book_id,isbn,title\n1,439023483,The Hunger Games\n", "utf-8", {"1": "The Hunger Games"}),
}


@pytest.mark.parametrize(("content", "encoding", "names"), TABLES.values(), ids=TABLES)
def test_public_tables_of_names_are_known_by_their_content(write, content, encoding, names):
    assert read_names(write("a", content, encoding)) == names


def test_a_table_of_names_has_a_header_and_an_encoding_of_its_own(write):
    assert read_names(write("a.txt", "7;é\n", "latin-1"), header=["id", "name"], encoding="latin-1") == {"7": "é"}
    with pytest.raises(DataError, match="--names-id-column, --names-column"):
        read_names(write("b.csv", "7,Seven\n"))


def test_errors_about_names_speak_of_their_own_options(write, tmp_path):
    pl.DataFrame({"id": [7], "title": ["Seven"]}).write_parquet(tmp_path / "a.parquet")
    for path in (
        write("a.csv", "id,title\n1,x\n"),
        write("a.jsonl", '{"id": 1, "title": "x"}'),
        tmp_path / "a.parquet",
    ):
        with pytest.raises(DataError, match=r"no column 'titel'.*did you mean 'title'.*--names-column") as failure:
            read_names(path, id="id", name="titel")
        assert "--user-column" not in str(failure.value)
