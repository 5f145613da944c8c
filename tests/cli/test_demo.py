"""`spherec demo`, on the data a newcomer gets, with a single epoch."""

import re

from spherec import datasets, load


def test_demo_trains_scores_and_recommends(spherec, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = spherec("demo", "--epochs", 1)
    assert done.code == 0, done.err
    assert "spherec serve demo.spherec" in done.err
    offered_by_file = [book.item for book in load("demo.spherec").recommend("247752")]
    assert spherec("demo", "--epochs", 1).err.startswith("error: demo.spherec exists already")
    assert "training on fold 0" in done.err
    for text in ("240,020", "the paper, 4 folds", "4.12", "4.5", "the default model, fold 0", "Reader 247752 likes"):
        assert text in done.out
    before, after = (
        done.out.split("by the paper's model, may like")[0],
        done.out.split("by the default model, may like")[1],
    )
    liked, offered = (re.findall(r"│ (\w{10}) │", part) for part in (before, after))
    assert len(offered) == 10
    assert offered == offered_by_file
    data = datasets.book_crossing()
    own = {data.item_ids[item] for item in data.items_of(int(data.user_ids.index_of(["247752"])[0]))}
    assert set(liked) <= own, "what a reader likes is hers"


def test_a_demo_without_epochs_is_refused(spherec):
    assert spherec("demo", "--epochs", 0).code == 2
