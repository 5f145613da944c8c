"""Data sets that come as a line a user, as prepared files for `spherec compare`.

    python benchmarks/prepare_lists.py users.dat.gz --first count --min-per-user 10 -o citeulike-t.npz
    python benchmarks/prepare_lists.py train.txt.gz --first user -o gowalla-train.npz
    python benchmarks/prepare_lists.py test.txt.gz --first user -o gowalla-test.npz

The first number of a line is the user (the Gowalla split of the LightGCN paper) or how many items follow (CiteULike;
then the user is the number of the line, from 0).
"""

import argparse
import gzip
from pathlib import Path

from spherec import Interactions
from spherec.data.filters import Cut


def main() -> None:
    """Read the lists, cut, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--first", choices=("user", "count"), required=True)
    parser.add_argument("--min-per-user", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    users, items = [], []
    with gzip.open(given.file, "rt") as lines:
        for number, line in enumerate(lines):
            first, *rest = line.split()
            rest = sorted(set(rest))
            users += [first if given.first == "user" else str(number)] * len(rest)
            items += rest
    data = Interactions.from_pairs(users, items).cut(Cut(min_per_user=given.min_per_user))
    data.save(given.output)
    print(f"{given.output}: {data.n_users:,} users, {data.n_items:,} items, {len(data):,} pairs")


if __name__ == "__main__":
    main()
