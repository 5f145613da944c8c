"""The embedded Book-Crossing data, and the cuts of the paper's three data sets."""

from importlib.resources import as_file, files

from spherec.data.interactions import Interactions
from spherec.datasets.paper import AMAZON_MOVIES, BOOK_CROSSING, ECHONEST, PAPER_DATASETS, PaperDataset, Table1

__all__ = ["AMAZON_MOVIES", "BOOK_CROSSING", "ECHONEST", "PAPER_DATASETS", "PaperDataset", "Table1", "book_crossing"]


def book_crossing() -> Interactions:
    """Load the Book-Crossing cut of the paper: 3,593 readers, 127,339 books, 240,020 ratings of 4 or more.

    User ids and ISBNs are strings, as in the published dump; names are "Title — Author" where the dump knows them.
    Collected by Cai-Nicolas Ziegler (Ziegler, McNee, Konstan, Lausen: "Improving Recommendation Lists Through Topic
    Diversification", WWW 2005); free for research when acknowledged.
    """
    with as_file(files(__name__) / "book_crossing.safetensors.gz") as path:
        return Interactions.load(path)
