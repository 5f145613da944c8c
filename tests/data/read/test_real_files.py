"""The real data sets, against the numbers in the README beside them and against the paper's Table 1."""

import pytest

from spherec import datasets
from spherec.data import splits
from spherec.data.cuts import Cut
from spherec.data.events import Events
from spherec.data.interactions import Interactions
from spherec.data.read import read, read_events, read_names
from spherec.data.read.formats import FORMATS, Reading

pytestmark = pytest.mark.data


def sizes(data: Interactions) -> tuple[int, int, int]:
    return data.n_users, data.n_items, len(data)


@pytest.fixture(scope="module")
def ratings(shared) -> Events:
    """All Book-Crossing ratings, merged."""
    path = shared / "data/book-crossing/BX-Book-Ratings.csv.gz"
    return read_events(path, Reading(format="book-crossing")).merge(FORMATS["book-crossing"].duplicates)


def test_all_book_crossing_ratings_are_read(ratings):
    assert sizes(Interactions.from_events(ratings)) == (105_283, 340_556, 1_149_780)
    assert (ratings.values > 0).sum() == 433_671
    assert set(ratings.values) == set(range(11))
    assert [step.name for step in ratings.steps] == ["read"]  # no pair comes twice


def test_the_book_crossing_preset_gives_table_1_and_the_embedded_cut(ratings):
    data = Interactions.from_events(datasets.BOOK_CROSSING.cut(ratings))
    embedded = datasets.book_crossing()
    paper = datasets.BOOK_CROSSING.paper
    assert sizes(data) == sizes(embedded) == (paper.users, paper.items, paper.pairs) == (3_593, 127_339, 240_020)
    assert data.user_ids == embedded.user_ids
    assert data.item_ids == embedded.item_ids
    assert (data.matrix != embedded.matrix).nnz == 0


def test_the_cut_in_the_papers_text_gives_other_numbers(ratings):
    data = Interactions.from_events(Cut(min_value=5, min_per_user=11)(ratings))
    assert sizes(data) == (6_312, 138_539, 274_573)


def test_citeulike(shared):
    data = read(shared / "data/citeulike-t/users.dat.gz", format="citeulike", duplicates="last")
    assert sizes(data) == (7_947, 25_584, 134_860)


def test_gowalla_and_its_published_split(shared):
    train, test = (
        read(shared / f"data/gowalla-lightgcn/{part}.txt.gz", format="adjacency", duplicates="last")
        for part in ("train", "test")
    )
    assert sizes(train) == (29_858, 40_981, 810_128)
    assert len(test) == 217_242
    fold = splits.given(train, test)
    assert sizes(fold.train) == (29_858, 40_981, 810_128)
    assert sizes(fold.test) == (29_858, 40_981, 217_242)
    assert fold.train.user_ids == fold.test.user_ids
    assert set(fold.test.user_ids) == {str(n) for n in range(29_858)}


def test_lastfm_with_the_names_of_its_artists(shared):
    folder = shared / "data/lastfm-2k"
    data = read(
        folder / "user_artists.dat.gz", user="userID", item="artistID", value="weight", duplicates="last"
    ).with_item_names(read_names(folder / "artists.dat.gz", id="id", name="name"))
    assert sizes(data) == (1_892, 17_632, 92_834)
    assert None not in data.item_names
    top = data.users_per_item.argmax()
    assert (data.item_ids[top], data.item_names[top]) == ("89", "Lady Gaga")


def test_the_amazon_sample_with_its_dates(shared):
    path = shared / "data/amazon-movies-tv-sample/reviews_sample_25.csv.gz"
    columns = {"user": "reviewerID", "item": "asin", "value": "overall", "time": "reviewTime"}
    events = read_events(path, Reading(**columns, time_format="%m %d, %Y"))
    assert len(events) == 57_019
    assert set(events.values) == {1, 2, 3, 4, 5}
    assert events.times[0] == 1_081_036_800  # 04 4, 2004
    assert (events.times % 86_400 == 0).all()
