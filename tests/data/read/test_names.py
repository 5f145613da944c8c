import json

import polars as pl
import pytest

from spherec.data.read import parquet, read_book_crossing_names, read_names
from spherec.errors import DataError


def test_names_are_read_by_column_and_the_last_of_an_id_wins(write):
    text = 'name,year,id\n"Stalker, or: the ""Zone""",1979,007\nSolaris,1972,8\nSolyaris,1972,8\n,1966,9\nlost,1,\n'
    assert read_names(write("a.csv.gz", text), id="id", name="name") == {
        "007": 'Stalker, or: the "Zone"',
        "8": "Solyaris",
    }


def test_names_in_tab_separated_files_may_hold_quotes_and_other_encodings(write):
    path = write("artists.dat", 'id\tname\turl\n1\t"Weird Al" Yankovic\t-\n2\tBjörk 12"\t-\n', "latin-1")
    names = read_names(path, id="id", name="name", encoding="latin-1")
    assert names == {"1": '"Weird Al" Yankovic', "2": 'Björk 12"'}


def test_a_column_that_is_not_there_is_named(write):
    path = write("a.csv", "id,title\n1,x\n")
    with pytest.raises(
        DataError, match=r"a\.csv: there is no column 'titel', only 'id', 'title'; did you mean 'title'"
    ):
        read_names(path, id="id", name="titel")


def book(isbn: bytes, title: bytes, author: bytes) -> bytes:
    return b";".join(b'"%s"' % cell for cell in (isbn, title, author, b"1999")) + b"\r\n"


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
    ],
    ids=["plain", "html", "escaped", "utf8-and-latin1", "encoded-twice", "lost", "no-author"],
)
def test_book_crossing_names_are_title_and_author_with_accents_mended(write, title, author, name):
    header = book(b"ISBN", b"Book-Title", b"Book-Author").replace(b"1999", b"Year-Of-Publication")
    path = write("BX-Books.csv", header + book(b"1", title, author) + book(b"2", b"Next", b"One"))
    assert read_book_crossing_names(path) == {"1": name, "2": "Next — One"}


def test_books_without_isbn_or_title_have_no_name(write):
    header = book(b"ISBN", b"Book-Title", b"Book-Author").replace(b"1999", b"Year-Of-Publication")
    path = write("BX-Books.csv", header + book(b"", b"Lost", b"One") + book(b"2", b"", b"") + book(b"3", b"Kept", b"X"))
    assert read_book_crossing_names(path) == {"3": "Kept — X"}


def test_names_come_from_json_lines_and_parquet_too(write, tmp_path):
    objects = [{"asin": "a", "title": "A", "x": [1]}, {"asin": 7, "title": "Seven"}, {"asin": "n"}]
    lines = write("meta.json.gz", "".join(f"{json.dumps(one)}\n" for one in objects))
    assert read_names(lines, id="asin", name="title") == {"a": "A", "7": "Seven"}
    pl.DataFrame({"asin": [7, 8], "title": ["Seven", None]}).write_parquet(tmp_path / "meta.parquet")
    assert read_names(tmp_path / "meta.parquet", id="asin", name="title") == {"7": "Seven"}
    with pytest.raises(DataError, match=r"no column 'id'.*--names-id-column"):
        read_names(lines, id="id", name="title")


def test_a_wrong_column_of_a_parquet_file_is_named(tmp_path):
    pl.DataFrame({"asin": [7], "title": ["Seven"]}).write_parquet(tmp_path / "meta.parquet")
    with pytest.raises(DataError, match=r"meta\.parquet: there is no column 'titel', .*did you mean 'title'"):
        read_names(tmp_path / "meta.parquet", id="asin", name="titel")


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
    "BX-Books.csv": ('"ISBN";"Book-Title";"Book-Author";"Year"\r\n"1";"T";"A";"5"\r\n', "latin-1", {"1": "T — A"}),
}


@pytest.mark.parametrize(("content", "encoding", "names"), TABLES.values(), ids=TABLES)
def test_public_tables_of_names_are_known_by_their_content(write, content, encoding, names):
    assert read_names(write("a", content, encoding)) == names


def test_a_table_of_names_has_a_header_a_separator_and_an_encoding_of_its_own(write):
    path = write("a.txt", "7~é\n8~b\n", "latin-1")
    names = read_names(path, header=["id", "name"], separator="~", encoding="latin-1")
    assert names == {"7": "é", "8": "b"}
    with pytest.raises(DataError, match=r"--names-id-column, --names-column.*--names-header"):
        read_names(write("b.csv", "7,Seven\n"))


def test_no_error_about_names_speaks_of_options_for_events(write, tmp_path):
    pl.DataFrame({"asin": [7], "title": ["Seven"]}).write_parquet(tmp_path / "meta.parquet")
    for path in (write("a.csv", "id,title\n1,x\n"), tmp_path / "meta.parquet"):
        with pytest.raises(DataError) as failure:
            read_names(path, id="id", name="titel")
        assert "--user-column" not in str(failure.value)
        assert "--names-column" in str(failure.value)


def test_titles_of_netflix_have_commas_and_accents(write):
    path = write("movie_titles.csv", "1,2003,Dinosaur, Pl\xe9net\n2,NULL,Isle of Man\n".encode("latin-1"))
    assert read_names(path) == {"1": "Dinosaur, Pl\xe9net", "2": "Isle of Man"}


def test_an_id_of_the_data_goes_before_an_isbn(write):
    assert read_names(write("books.csv", "book_id,isbn,title\n1,439023483,The Hunger Games\n")) == {
        "1": "The Hunger Games"
    }


def test_names_in_parquet_are_read_a_piece_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_ROWS", 3)
    pl.DataFrame({"item": [*range(7), 0], "title": [*"abcdefg", "z"]}).write_parquet(tmp_path / "x.parquet")
    assert read_names(tmp_path / "x.parquet", id="item", name="title") == dict(zip("0123456", "zbcdefg", strict=True))
