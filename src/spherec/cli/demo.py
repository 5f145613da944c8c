"""`spherec demo`: a first look, with nothing to prepare."""

import numpy as np
from rich.table import Table

from spherec import datasets
from spherec.cli.display import note, show, statistics_table, steps_table
from spherec.data.interactions import Interactions
from spherec.data.statistics import statistics

_READER = "247752"
_SHOWN = 10


def demo() -> None:
    """Load the embedded Book-Crossing data set and look at it: sizes beside the paper's, bestsellers, one reader."""
    data = datasets.book_crossing()
    show(steps_table(data.steps), statistics_table(statistics(data), datasets.BOOK_CROSSING))
    note(datasets.BOOK_CROSSING.note)
    show(_most_popular(data), _books_of(data, _READER))
    note("next: spherec train book-crossing -o books.spherec")


def _most_popular(data: Interactions) -> Table:
    table = Table("readers", "ISBN", "book", title="The most read books", title_justify="left")
    for item in np.argsort(-data.users_per_item, kind="stable")[:_SHOWN]:
        table.add_row(str(data.users_per_item[item]), *_book(data, item))
    return table


def _books_of(data: Interactions, reader: str) -> Table:
    items = data.items_of(int(data.user_ids.index_of([reader])[0]))
    title = f"Reader {reader} liked {len(items)} books, among them"
    table = Table("readers", "ISBN", "book", title=title, title_justify="left")
    for item in items[:_SHOWN]:
        table.add_row(str(data.users_per_item[item]), *_book(data, item))
    return table


def _book(data: Interactions, item: int) -> tuple[str, str]:
    names = data.item_names or ()
    return str(data.item_ids[int(item)]), names[item] or "(title unknown)"
