"""The table of public files in docs/data.md: every command, on the published file or on one in its official format."""

import gzip
import json
import re
import shlex
from pathlib import Path

import pytest

from spherec.cli import main
from spherec.data.interactions import Interactions

PAGE = (Path(__file__).parents[2] / "docs/data.md").read_text()
TABLE = PAGE.partition("<!-- public files -->")[2].partition("<!-- end of public files -->")[0]
LINES = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE.strip().splitlines()[2:]]
PUBLISHED = {
    "Book-Crossing": "book-crossing",
    "CiteULike-t": "citeulike-t",
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
    "Books.csv": "".join(f"{item},{user},{stars},1203984000\n" for user, item, stars in REVIEWS),
    "Books.jsonl": "".join(
        json.dumps(
            {"rating": stars, "title": "Good", "asin": item, "parent_asin": item, "user_id": user, "timestamp": 1}
        )
        + "\n"
        for user, item, stars in REVIEWS
    ),
    "yelp_academic_dataset_review.json": "".join(
        json.dumps(
            {"review_id": "r", "user_id": user, "business_id": item, "stars": stars, "date": "2018-07-07 22:09:11"}
        )
        + "\n"
        for user, item, stars in REVIEWS
    ),
    "yelp_academic_dataset_business.json": '{"business_id": "0005019281", "name": "Cafe", "stars": 4.0}\n',
    "goodreads_interactions.csv": "user_id,book_id,is_read,rating,is_reviewed\n0,948,1,5,0\n0,947,1,0,1\n1,948,0,0,0\n",
    "usersha1-artmbid-artname-plays.tsv": f"{ONE}\t3bd73256-3905-4f3a-97e2-8b341527f805\tbetty blowtorch\t2137\n"
    f'{ONE}\t\tdie "Ärzte\t1099\n{TWO}\t\tbetty blowtorch\t17\n',
    "Gowalla_totalCheckins.txt": "0\t2010-10-19T23:55:27Z\t30.2359091167\t-97.7951395833\t22847\n"
    "0\t2010-10-18T22:17:43Z\t30.2691029532\t-97.7493953705\t420315\n"
    "1\t2010-10-17T23:42:03Z\t30.2557309927\t-97.7633857727\t22847\n",
    "events.csv": "timestamp,visitorid,event,itemid,transactionid\n1433221332117,257597,view,355908,\n"
    "1433224214164,257597,addtocart,248676,\n1433221999827,111016,transaction,355908,4000\n",
    "train-item-views.csv": "sessionId;userId;itemId;timeframe;eventdate\n"
    + "".join(f"{number};{number};{81766 + number % 2};526309;2016-05-09\n" for number in range(10))
    + "1;NA;31331;1031018;2016-05-09\n",
    "small_matrix.csv": "user_id,video_id,play_duration,video_duration,time,date,timestamp,watch_ratio\n"
    "14,148,4381,6067,2020-07-05 05:27:48.378,20200705,1593898068.378,0.722\n14,183,11635,6100,,,,1.907\n"
    "19,148,22422,10867,2020-07-05 05:29:09.479,20200705,1593898149.479,2.063\n",
    "recommendations.csv": "app_id,helpful,funny,date,is_recommended,hours,user_id,review_id\n"
    "975370,0,0,2022-12-12,true,36.3,51580,0\n304390,4,0,2017-02-17,false,11.5,51580,1\n"
    "975370,2,0,2019-11-17,true,336.5,253880,2\n",
    "steam-200k.csv": '151603712,"The Elder Scrolls V Skyrim",purchase,1.0,0\n'
    '151603712,"The Elder Scrolls V Skyrim",play,273.0,0\n151603712,Fallout 4,purchase,1.0,0\n'
    "187131847,Fallout 4,purchase,1.0,0\n",
    "ta_feng_all_months_merged.csv": '"TRANSACTION_DT","CUSTOMER_ID","AGE_GROUP","PIN_CODE","PRODUCT_ID","AMOUNT"\n'
    '"11/1/2000","01104905","45-49","115","4710199010372","2"\n"11/1/2000","01104905","45-49","115","4710857472535","1"\n'
    '"11/2/2000","00418683","45-49","115","4710199010372","1"\n',
    "RAW_interactions.csv": 'user_id,recipe_id,date,rating,review\n38094,40893,2003-02-17,4,"Great,\nwith a salad"\n'
    '38094,44394,2011-12-21,5,"So ""good"""\n1293707,40893,2002-10-25,0,x\n',
    "RAW_recipes.csv": "name,id,minutes,contributor_id\nwhite bean chili,40893,495,1533\n",
    "transactions_train.csv": "t_dat,customer_id,article_id,price,sales_channel_id\n"
    f"2018-09-20,{ONE},0663713001,0.0508,2\n2018-09-20,{ONE},0541518023,0.0305,2\n2018-09-21,{TWO},0663713001,0.05,1\n",
}
REMARKS = {
    "events.csv": "view, addtocart, transaction in column 'event' all count as positives",
    "steam-200k.csv": "purchase and play in column 'behaviour' all count as positives",
    "recommendations.csv": "from 0 to 1 all count as likes, the low ones too",
    "train-item-views.csv": "read without 1 rows that have no user or item",
    "goodreads_interactions.csv": "from 0 to 5 all count as likes",
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
    assert REMARKS.get(words[3], "") in notes
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
        ["data", "prepare", "x.gz", "--head", "2"],
        ["data", "stats", "x.gz"],
        ["data", "split", "x.gz", "--folds", "2", "-o", "s"],
    ):
        with pytest.raises(SystemExit) as ended:
            main(words)
        notes = capsys.readouterr().err
        assert ended.value.code in (0, None), notes
        assert notes.count("read as MovieLens ratings.dat (user::item::rating::time, no header)") == 1
        assert notes.count("from 2 to 5 all count as likes, the low ones too") == (words[1] != "prepare")
