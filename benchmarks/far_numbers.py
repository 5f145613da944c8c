"""Measure what the cut of far numbers does to new items, on books of Book-Crossing that came after those of training.

    python benchmarks/far_numbers.py BX-Books.csv.gz [--first 2002 2003] [--epochs 8]

The model learns from books before the year FIRST, with their years, authors and publishers. Later ones are added by
their features, with the cut and without: recall@50 of those that readers have, among new books alone and among all; and
the share of lists that have a new book whose year is 20030 by mistake.
"""

import argparse
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from spherec import CML, Cut, Features, datasets
from spherec.data.feature_cells import Kind
from spherec.data.feature_columns import NumberColumn
from spherec.data.feature_transformation import Transformation
from spherec.data.readers.item_features import read_item_columns
from spherec.errors import UnknownContentWarning

K, WRONG_BOOKS, WRONG_YEAR = 50, 20, 20030


def read_books(path: Path, known: set[str]) -> pd.DataFrame:
    """Return id, year, author and publisher of the known books; a year of 0 is missing."""
    ids, cells = read_item_columns(path)
    books = pd.DataFrame({"item": ids, "author": cells["Book-Author"], "publisher": cells["Publisher"]})
    books["year"] = pd.to_numeric(pd.Series(cells["Year-Of-Publication"]), errors="coerce").replace(0, np.nan)
    return books[books.item.isin(known)].drop_duplicates("item")


def without_cut(model: CML) -> CML:
    """Return the model with years of new books as they are."""
    artifact = model.artifact
    assert artifact.features is not None
    (source,) = artifact.features.transformation.sources
    columns = [
        replace(one, lowest=-np.inf, highest=np.inf) if isinstance(one, NumberColumn) else one for one in source.columns
    ]
    fitted = Transformation((replace(source, columns=tuple(columns)),))
    features = replace(artifact.features, transformation=fitted)
    return CML._make(model.config, "cpu", type(model._state).of(replace(artifact, features=features)))


def find_hits(model: CML, wanted: pd.DataFrame, only: list[str] | None) -> float:
    """Return recall@K of the pairs, in percent."""
    users = wanted.user.unique().tolist()
    lists = model.recommend(users, k=K, only=only)
    found = {(one.user, one.item) for one in lists}
    hits = wanted.assign(hit=[pair in found for pair in zip(wanted.user, wanted.item, strict=True)])
    by_user = hits.groupby("user").hit
    return 100 * float((by_user.sum() / by_user.count().clip(upper=K)).mean())


def measure(books: pd.DataFrame, pairs: pd.DataFrame, first: int, epochs: int) -> None:
    """Train on older books, add newer ones, and print the figures."""
    old, new = books[~(books.year >= first)], books[books.year.between(first, 2009)]
    model = CML(preset="accurate", dim=64, epochs=epochs, device="cpu")
    kinds: dict[str, Kind] = {"author": "category", "publisher": "category"}
    features = Features.from_frame(old, item="item", kinds=kinds)
    model.fit(pairs[pairs.item.isin(old.item)], user="user", item="item", item_features=features)
    wanted = pairs[pairs.item.isin(new.item) & pairs.user.isin(model.data.user_ids)]
    readers = wanted.user.unique().tolist()
    wrong = new.assign(year=np.where(np.arange(len(new)) < WRONG_BOOKS, WRONG_YEAR, new.year))
    print(f"from {first}: {len(old):,} books, {len(new):,} new, {len(readers):,} readers of these")
    plain = CML._make(model.config, "cpu", model._state)
    for name, same in (("cut", plain), ("not", without_cut(model))):
        state = same._state
        same.add_items(new)
        among_new, among_all = (find_hits(same, wanted, only) for only in (new.item.tolist(), None))
        lists = CML._make(model.config, "cpu", state).add_items(wrong).recommend(readers, k=K)
        mistaken = set(wrong.item[:WRONG_BOOKS])
        share = 100 * sum(one.item in mistaken for one in lists) / len(readers) / WRONG_BOOKS
        print(
            f"{name}: recall {among_new:.2f} among new, {among_all:.2f} among all; in {share:.2f} % of lists",
            flush=True,
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("books", type=Path)
    parser.add_argument("--first", type=int, nargs="+", default=[2002, 2003])
    parser.add_argument("--epochs", type=int, default=8)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UnknownContentWarning)
    data = datasets.book_crossing().cut(Cut(min_per_item=3, min_per_user=5))
    pairs = pd.DataFrame({"user": data.user_ids.array[data.users], "item": data.item_ids.array[data.indices]})
    books = read_books(options.books, set(map(str, data.item_ids)))
    for first in options.first:
        measure(books, pairs, first, options.epochs)


if __name__ == "__main__":
    main()
