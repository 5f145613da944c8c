"""The paper's three data sets: the cut of each, and its row of Table 1."""

from dataclasses import dataclass

from spherec.data.cuts import Cut


@dataclass(frozen=True)
class Table1:
    """A row of the paper's Table 1."""

    users: int
    items: int
    pairs: int
    density_percent: float


@dataclass(frozen=True)
class PaperDataset:
    """A data set of the paper."""

    name: str
    cut: Cut
    paper: Table1


BOOK_CROSSING = PaperDataset(
    name="book-crossing",
    cut=Cut(min_value=4, min_per_user=20),
    paper=Table1(3_593, 127_339, 240_020, 0.052),
)
AMAZON_MOVIES = PaperDataset(
    name="amazon-movies",
    cut=Cut(min_value=5, min_per_user=20),
    paper=Table1(11_181, 94_661, 620_059, 0.058),
)
ECHONEST = PaperDataset(
    name="echonest",
    cut=Cut(min_value=5, min_per_user=21, min_per_item=5),
    paper=Table1(31_521, 159_063, 1_405_671, 0.028),
)
PAPER_DATASETS = {dataset.name: dataset for dataset in (BOOK_CROSSING, AMAZON_MOVIES, ECHONEST)}
