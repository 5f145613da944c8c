"""Measure whether weights of pairs help: Last.fm's play counts and Book-Crossing's ratings, on validation parts.

    python benchmarks/pair_weights.py FOLDER -o results.jsonl [--device cuda] [--seeds 0 1 2 3] [--dim 256]

FOLDER has lastfm-2k/user_artists.dat and book-crossing/BX-Book-Ratings.csv, plain or gzipped. Of Last.fm, users with at
least 10 artists count; of Book-Crossing, ratings >= 4 of users with at least 20. 20 % of each user's items are held out
as a test part, which is not looked at, and 20 % of the others as the validation part. A line of JSON is written for
each run: with weights and without, the preset `accurate` with one space of `--dim` dimensions.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

from spherec import Cut, Interactions, read, splits
from spherec.evaluation import evaluate
from spherec.training import Run, join, train
from spherec.training.config import PRESETS


def load(folder: Path) -> dict[str, Interactions]:
    """Return the interactions of both data sets, with weights."""
    plays = next(folder.glob("lastfm-2k/user_artists.dat*"))
    ratings = next(folder.glob("book-crossing/BX-Book-Ratings.csv*"))
    often, high = Cut(min_per_user=10), Cut(min_value=4, min_per_user=20)
    return {
        "lastfm": read(plays, user="userID", item="artistID", value="weight", cut=often, weigh=True),
        "book-crossing": read(ratings, format="book-crossing", cut=high, weigh=True),
    }


def main() -> None:
    """Train, score and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--dim", type=int, default=256)
    options = parser.parse_args()
    config = PRESETS["accurate"].training.change({"dim": options.dim})
    for name, data in load(options.folder).items():
        for seed in options.seeds:
            outer = splits.ratio(data, 0.2, seed=seed)
            part = splits.ratio(outer.train, 0.2, seed=100)
            for weights in (False, True):
                given = part.train if weights else replace(part.train, weights=None)
                trained = train(Run(given, config, crew=join(options.device)))
                scores = evaluate(trained.vectors, part.train, part.test, k=50, metrics=["recall", "ndcg"])
                figures = {"recall": 100 * scores.recall, "ndcg": 100 * scores.ndcg}
                run = {"data": name, "seed": seed, "weights": weights, "dim": options.dim, "device": options.device}
                with options.output.open("a") as file:
                    file.write(json.dumps(run | figures) + "\n")
                print(run, {key: round(value, 2) for key, value in figures.items()}, flush=True)


if __name__ == "__main__":
    main()
