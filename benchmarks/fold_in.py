"""How good users are who were placed by fold-in, beside the same users trained in. Prints a record.

A tenth of the Book-Crossing users is kept out of training altogether; half of each one's items is given when asked, the
other half tests. Beside it, a model that was trained on the others and on those same half histories.

    python benchmarks/fold_in.py [--preset two-stage] [--dim 128] [--epochs 54] [--seed 0] [--models FOLDER]

With --models, trained models are kept in that folder and used again.
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
ITEMS = 50  # of the user who is timed


def parts(data: Interactions, seed: int) -> tuple[Interactions, Interactions, Interactions, Interactions]:
    """The others, the halves that are given, the halves that test, and all but the last."""
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


def trained(data: Interactions, folder: Path | None, name: str, options: argparse.Namespace) -> CML:
    """A model of the data, trained for a fixed number of epochs."""
    path = None if folder is None else folder / f"{options.preset}-{options.seed}-{name}.spherec"
    if path is not None and path.exists():
        return spherec.load(path)
    model = CML(preset=options.preset, dim=options.dim, seed=options.seed, epochs=options.epochs)
    model.fit(data, validation=0, progress=True)
    if path is not None:
        model.save(path)
    return model


def middles(model: CML, given: Interactions) -> ExactRanker:
    """The simplest fold-in: the middle of a user's items that others have, too."""
    users = model.vectors.user_table.clone()
    for user in np.flatnonzero(given.items_per_user).tolist():
        own = given.items_of(user)
        own = own[model.data.users_per_item[own] > 0]
        users[user] = unit(model.vectors.item_table[own.astype(np.int64)].sum(0))
    return ExactRanker(DenseVectors(users, model.vectors.item_table, model.vectors.constraint))


def milliseconds(model: CML, given: Interactions) -> float:
    """The median time to place a user with 50 items, on one thread."""
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
    others, given, test, whole = parts(spherec.datasets.book_crossing(), options.seed)
    placed, learned = trained(others, options.models, "others", options), trained(whole, options.models, "all", options)
    scores: dict[str, Scores] = {
        "trained in": evaluate(learned, whole, test),
        "folded in": evaluate(placed.fold_in(given), whole, test),
        "middle of the items": evaluate(middles(placed, given), whole, test),
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
        **{name: {"ndcg": round(one.ndcg, 5), "mmr": round(one.mmr, 2)} for name, one in scores.items()},
        "ratio": round(scores["folded in"].ndcg / scores["trained in"].ndcg, 3),
        "p of the difference": difference(scores["folded in"], scores["trained in"]).p_value,
        f"ms to place a user with {ITEMS} items": round(milliseconds(placed, given), 2),
    }
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
