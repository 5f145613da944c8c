"""The table of public files in docs/data.md: every command, on the published file or on one in its official format."""

import gzip
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from spherec.cli import main
from spherec.data.interactions import Interactions

PAGE = (Path(__file__).parents[2] / "docs/data.md").read_text()
TABLE = PAGE.partition("<!-- public files -->")[2].partition("<!-- end of public files -->")[0]
LINES = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE.strip().splitlines()[2:]]
PUBLISHED = {
    "Book-Crossing": "book-crossing",
    "CiteULike-t": "citeulike-t",
    "CiteULike-t, all articles": "citeulike-t",
    "Gowalla (LightGCN)": "gowalla-lightgcn",
    "HetRec 2011 Last.fm": "lastfm-2k",
    "Amazon, a CSV of reviews": "amazon-movies-tv-sample",
}
ONE, TWO = "b80344d063b5ccb3212f76538f3d9e43d87dca9e", "85c1f87fea955d09b4bec2e36aee110927aedf9a"
REVIEWS = [
    ("ADZPIG9QOCDG5", "0005019281", 4.0),
    ("ADZPIG9QOCDG5", "B00005U0JX", 1.0),
    ("A35947ZP82G7JH", "0005019281", 5.0),
]
OFFICIAL = {
    "ratings.dat": "1::1193::5::978300760\n1::661::3::978302109\n2::1193::4::978298413\n2::914::2::978301968\n",
    "movies.dat": "661::James and the Peach (1996)::Animation\n914::My Fair Lady\xe9::Musical\n".encode("latin-1"),
    "u.data": "196\t242\t3\t881250949\n196\t302\t5\t881250950\n22\t242\t1\t878887116\n",
    "u.item": "242|Kolya (1996)|24-Jan-1997||http://us.imdb.com/M|0|0\n302|\xc9tat|01-Jan-1997||x|0|1\n".encode(
        "latin-1"
    ),
    "ratings.csv": "userId,movieId,rating,timestamp\n1,296,5.0,1147880044\n1,306,3.5,1147868817\n2,296,0.5,114141552\n",
    "movies.csv": 'movieId,title,genres\n296,"Pulp Fiction, (1994)",Crime\n306,Red (1994),Drama\n',
    "ml-100k.inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    "196\t242\t3\t881250949\n196\t302\t5\t881250950\n22\t242\t1\t878887116\n",
    "ml-100k.item": "item_id:token\tmovie_title:token_seq\trelease_year:token\n242\tKolya\t1996\n302\tL.A.\t1997\n",
    "train_triplets.txt": f"{ONE}\tSOAKIMP12A8C130995\t1\n{ONE}\tSOBBMDR12A8C13253B\t2\n{TWO}\tSOAKIMP12A8C130995\t7\n",
    "ratings_Movies_and_TV.csv": "".join(f"{user},{item},{stars},1203984000\n" for user, item, stars in REVIEWS),
    "reviews_Movies_and_TV_5.json": "".join(
        json.dumps(
            {"reviewerID": user, "asin": item, "helpful": [0, 0], "overall": stars, "unixReviewTime": 1203984000}
        )
        + "\n"
        for user, item, stars in REVIEWS
    ),
}


def check(folder: Path, line: list[str], monkeypatch, capsys) -> None:
    _, command, title, *sizes = line
    monkeypatch.chdir(folder)
    words = shlex.split(command.strip("`"))
    assert words[0] == "spherec"
    assert "--format" not in words
    with pytest.raises(SystemExit) as ended:
        main(words[1:])
    notes = capsys.readouterr().err
    assert ended.value.code in (0, None), notes
    assert f"read as {title}" in notes
    data = Interactions.load("data.npz")
    assert [data.n_users, data.n_items, len(data)] == [int(size.replace(",", "")) for size in sizes]
    if "--names" in words:
        assert re.search(r"[1-9][\d,]* of [\d,]+ items have a name", notes)


def test_the_table_has_twelve_files():
    assert len(LINES) >= 12
    assert set(PUBLISHED) <= {line[0] for line in LINES}


@pytest.mark.parametrize("line", [line for line in LINES if line[0] not in PUBLISHED], ids=lambda line: line[0])
def test_files_in_the_official_format(line, tmp_path, monkeypatch, capsys):
    for name, content in OFFICIAL.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    sp.save_npz(tmp_path / "matrix.npz", sp.csr_array(np.array([[0, 1, 1, 0], [0, 1, 0, 0]])))
    check(tmp_path, line, monkeypatch, capsys)


@pytest.mark.data
@pytest.mark.parametrize("line", [line for line in LINES if line[0] in PUBLISHED], ids=lambda line: line[0])
def test_published_files(line, shared, tmp_path, monkeypatch, capsys):
    for path in (shared / "data" / PUBLISHED[line[0]]).glob("*.gz"):
        (tmp_path / path.name).symlink_to(path)
    check(tmp_path, line, monkeypatch, capsys)


def test_the_same_files_are_read_gzipped_and_by_train_and_head(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("x.gz").write_bytes(gzip.compress(OFFICIAL["ratings.dat"].encode()))
    for words in (
        ["data", "head", "x.gz"],
        ["data", "stats", "x.gz"],
        ["data", "split", "x.gz", "--folds", "2", "-o", "s"],
    ):
        with pytest.raises(SystemExit) as ended:
            main(words)
        notes = capsys.readouterr().err
        assert ended.value.code in (0, None), notes
        assert notes.count("read as MovieLens ratings.dat (user::item::rating::time, no header)") == 1
        assert notes.count("from 2 to 5 all count as likes, the low ones too") == 1
