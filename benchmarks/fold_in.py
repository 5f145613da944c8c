"""Compare the lists of users placed by fold-in with those of the same users in training. Prints a record.

A tenth of the Book-Crossing users is kept out of training. Half of the items of each of them is given to fold-in, the
other half tests. The model to compare with was trained on the other users and on those same half histories.

    python benchmarks/fold_in.py [--preset two-stage] [--dim 128] [--epochs 54] [--seed 0] [--models FOLDER]

With --models, trained models are kept in that folder and reused.
"""

import argparse
import json
import statistics
import subprocess
import time
from pathlib import Path

import numpy as np
import torch

import spherec
from spherec import rng
from spherec.data.interactions import Interactions
from spherec.evaluation import Scores, difference, evaluate
from spherec.geometry import DenseVectors, unit
from spherec.ranking import ExactRanker
from spherec.recommender import CML

SHARE = 0.1
ITEMS = 50  # items of the user whose fold-in is timed


def split(data: Interactions, seed: int) -> tuple[Interactions, Interactions, Interactions, Interactions]:
    """Return the other users, the given halves, the test halves, and all pairs but the test halves."""
    generator = rng.stream(seed, "fold-in")
    new = np.zeros(data.n_users, dtype=bool)
    new[generator.permutation(data.n_users)[: int(SHARE * data.n_users)]] = True
    is_given = np.zeros(len(data), dtype=bool)
    for user in np.flatnonzero(new):
        row = np.arange(data.indptr[user], data.indptr[user + 1])
        is_given[generator.permutation(row)[: len(row) // 2]] = True
    is_new = new[data.users]
    others, given, test = (data.filter(mask) for mask in (~is_new, is_new & is_given, is_new & ~is_given))
    return others, given, test, data.filter(~is_new | is_given)


def train(data: Interactions, folder: Path | None, name: str, options: argparse.Namespace) -> CML:
    """Train for a fixed number of epochs, or load the model if it was kept."""
    path = None if folder is None else folder / f"{options.preset}-{options.seed}-{name}.spherec"
    if path is not None and path.exists():
        return spherec.load(path)
    model = CML.preset(options.preset, dim=options.dim, seed=options.seed, epochs=options.epochs)
    model.fit(data, validation=0, progress=True)
    if path is not None:
        model.save(path)
    return model


def rank_by_mean(model: CML, given: Interactions) -> ExactRanker:
    """Return a ranker with the simplest fold-in: the mean of the user's items that other users have as well."""
    users = model.vectors.user_table.clone()
    for user in np.flatnonzero(given.items_per_user).tolist():
        own = given.items_of(user)
        own = own[model.data.users_per_item[own] > 0]
        users[user] = unit(model.vectors.item_table[own.astype(np.int64)].sum(0))
    return ExactRanker(DenseVectors(users, model.vectors.item_table, model.vectors.constraint))


def time_fold_in(model: CML, given: Interactions) -> float:
    """Return the median of the milliseconds to place a user with 50 items, on one thread."""
    items = np.sort(rng.stream(0, "timed").choice(np.unique(given.indices), ITEMS, replace=False))
    times = []
    for _ in range(100):
        began = time.perf_counter()
        model._state.fold_in.place(items)
        times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="two-stage")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=54)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    others, given, test, whole = split(spherec.datasets.book_crossing(), options.seed)
    placed, learned = train(others, options.models, "others", options), train(whole, options.models, "all", options)
    scores: dict[str, Scores] = {
        "trained in": evaluate(learned, whole, test),
        "folded in": evaluate(placed.fold_in(given), whole, test),
        "middle of the items": evaluate(rank_by_mean(placed, given), whole, test),
    }
    record = {
        "commit": subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True
        ).stdout.strip(),
        "preset": options.preset,
        "dim": options.dim,
        "epochs": options.epochs,
        "seed": options.seed,
        "users": len(scores["folded in"].per_user.users),
        "pairs given, tested": [len(given), len(test)],
        **{name: {"ndcg": round(result.ndcg, 5), "mmr": round(result.mmr, 2)} for name, result in scores.items()},
        "ratio": round(scores["folded in"].ndcg / scores["trained in"].ndcg, 3),
        "p of the difference": difference(scores["folded in"], scores["trained in"]).p_value,
        f"ms to place a user with {ITEMS} items": round(time_fold_in(placed, given), 2),
    }
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
