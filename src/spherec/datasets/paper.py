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
    format: FormatName
    cut: Cut
    paper: Table1

    def format_of(self, path: str) -> FormatName:
        """Return the format of a file of this data set; Amazon's comes as ratings (CSV) and as reviews (JSON lines)."""
        suffixes = {suffix.lower() for suffix in Path(path).suffixes}
        if self.format == "amazon-ratings" and suffixes & {".json", ".jsonl", ".ndjson"}:
            return "amazon-reviews"
        return self.format


BOOK_CROSSING = PaperDataset(
    name="book-crossing",
    format="book-crossing",
    cut=Cut(min_value=4, min_per_user=20),
    paper=Table1(3_593, 127_339, 240_020, 0.052),
)
AMAZON_MOVIES = PaperDataset(
    name="amazon-movies",
    format="amazon-ratings",
    cut=Cut(min_value=5, min_per_user=20),
    paper=Table1(11_181, 94_661, 620_059, 0.058),
)
ECHONEST = PaperDataset(
    name="echonest",
    format="echonest",
    cut=Cut(min_value=5, min_per_user=21, min_per_item=5),
    paper=Table1(31_521, 159_063, 1_405_671, 0.028),
)
PAPER_DATASETS = {dataset.name: dataset for dataset in (BOOK_CROSSING, AMAZON_MOVIES, ECHONEST)}
