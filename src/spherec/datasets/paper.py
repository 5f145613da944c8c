"""The paper's three data sets: the cut of each, and its row of Table 1."""

from dataclasses import dataclass
from pathlib import Path

from spherec.data.cuts import Cut
from spherec.data.read.formats import FormatName


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
    title: str
    format: FormatName
    cut: Cut
    paper: Table1
    note: str
    "Remark about reaching the paper's numbers."

    def format_of(self, path: str) -> FormatName:
        """Return the format of a file of this data set; Amazon's comes as ratings (CSV) and as reviews (JSON lines)."""
        suffixes = {suffix.lower() for suffix in Path(path).suffixes}
        if self.format == "amazon-ratings" and suffixes & {".json", ".jsonl", ".ndjson"}:
            return "amazon-reviews"
        return self.format


BOOK_CROSSING = PaperDataset(
    name="book-crossing",
    title="Book-Crossing",
    format="book-crossing",
    cut=Cut(min_value=4, min_per_user=20),
    paper=Table1(3_593, 127_339, 240_020, 0.052),
    note="Ratings >= 4 of users with >= 20 of them give the paper's numbers exactly; "
    "its text says >= 5 and > 10, which gives 6,312 users, 138,539 items, 274,573 pairs.",
)
AMAZON_MOVIES = PaperDataset(
    name="amazon-movies",
    title="Amazon Movies & TV (5-core)",
    format="amazon-ratings",
    cut=Cut(min_value=5, min_per_user=20),
    paper=Table1(11_181, 94_661, 620_059, 0.058),
    note="Ratings > 4 of users with >= 20 of them, after the paper's text; not checked against the published file.",
)
ECHONEST = PaperDataset(
    name="echonest",
    title="EchoNest Taste Profile",
    format="echonest",
    cut=Cut(min_value=5, min_per_user=21, min_per_item=5),
    paper=Table1(31_521, 159_063, 1_405_671, 0.028),
    note="Play counts >= 5, users with > 20 songs, then songs with >= 5 users, after the paper's text; "
    "not checked against the published file, whose songs the authors deduplicated in a way they do not describe.",
)
PAPER_DATASETS = {dataset.name: dataset for dataset in (BOOK_CROSSING, AMAZON_MOVIES, ECHONEST)}
