"""Time until good lists on generated data with planted taste, in two source trees on one machine.

    python benchmarks/planted_taste.py -o planted.npz      # the data alone
    python benchmarks/planted_taste.py --other PATH/src [--threads 2] [--device cpu] [--record FILE.json]

6,000 users have 575,000 of 3,500 items. Users and items have a taste of 16 dimensions each; a user takes items by the
product of the tastes, by an item's popularity and by chance. A fifth of each user's items is the test part.

The fits of a tree run in a process of their own, one after the other, by the public API of the tree; its first fit, of
one epoch, is not timed. Prints the seconds of each fit, its NDCG and MMR, and for each fit of the other tree how much
sooner this tree reaches its NDCG. `accurate` with all its dimensions takes more than an hour in an old tree, so there
one epoch is timed, and its seconds are multiplied by the number of epochs; it is compared with the whole of `fast`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

THIS = Path(__file__).resolve().parents[1] / "src"
USERS, ITEMS, PAIRS, DIM = 6_000, 3_500, 575_000, 16
EPOCHS = 30  # of `accurate`
FITS: dict[str, list[dict[str, Any]]] = {
    "this": [{"preset": "fast", "epochs": 2}, {"preset": "fast", "epochs": 5}, {"preset": "fast"}],
    "other": [{"preset": "two-stage"}, {"preset": "accurate", "dim": 128}, {"preset": "accurate", "epochs": 1}],
}
WORKER = """
import json, os, sys, time
import torch
import spherec
torch.set_num_threads(int(sys.argv[3]))
train, test = (spherec.Interactions.load(path) for path in sys.argv[1:3])
for number, settings in enumerate([{"preset": "accurate", "dim": 8, "epochs": 1}, *json.loads(sys.argv[4])]):
    began = time.perf_counter()
    model = spherec.CML(device=sys.argv[5], **settings).fit(train)
    seconds = time.perf_counter() - began
    if number:
        scores = spherec.evaluate(model, train, test, k=50).summary()
        print(json.dumps({**settings, "seconds": seconds, **scores}), flush=True)
"""


def plant(n_users: int, n_items: int, pairs: int, seed: int = 0) -> Any:
    """Return interactions with planted taste, as many or nearly; the numbers of users' items are lognormal."""
    from spherec import Interactions, rng

    random = rng.stream(seed, "planted taste")
    users, items = (random.standard_normal((count, DIM)) for count in (n_users, n_items))  # (U, 16), (I, 16)
    popularity = 1.2 * random.standard_normal(n_items)  # (I,) its logarithm
    activity = np.exp(0.8 * random.standard_normal(n_users))
    counts = np.clip(np.rint(activity * pairs / activity.sum()), 5, n_items // 2).astype(int)  # (U,)
    missing = pairs - counts.sum()
    counts[np.argsort(-counts)[: abs(missing)]] += np.sign(missing)
    rows = []
    for user, count in zip(users, counts, strict=True):
        chance = -np.log(-np.log(random.random(n_items)))  # Gumbel's: the largest sums are draws by e^sum
        rows.append(np.argpartition(-(items @ user / 2 + popularity + chance), count)[:count])
    return Interactions.from_pairs(np.repeat(np.arange(n_users), counts), np.concatenate(rows))


Record = dict[str, Any]


def fit(source: Path, fits: list[Record], files: list[str], arguments: argparse.Namespace) -> list[Record]:
    """Run fits in a process of a tree, print and return their records."""
    environment = {**os.environ, "PYTHONPATH": str(source.resolve()), "OMP_NUM_THREADS": str(arguments.threads)}
    given = [*files, str(arguments.threads), json.dumps(fits), arguments.device]
    command = [sys.executable, "-W", "ignore", "-c", WORKER, *given]
    records = []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            record = json.loads(line)
            if record.get("epochs") == 1:
                record |= {"seconds": EPOCHS * record["seconds"], "epochs": f"1, times {EPOCHS}", "ndcg": None}
            ndcg = "" if record["ndcg"] is None else f", NDCG {100 * record['ndcg']:.2f} %, MMR {record['mmr']:.1f}"
            print(f"{describe(record)}: {record['seconds']:,.1f} s{ndcg}", flush=True)
            records.append(record)
    if process.returncode:
        raise SystemExit(f"the process of {source} ended with {process.returncode}")
    return records


def describe(record: Record) -> str:
    """Return the settings of a fit."""
    return ", ".join(f"{name} {record[name]}" for name in ("preset", "dim", "epochs") if name in record)


def main() -> None:
    """Generate, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, help="write all interactions to this prepared file, and end")
    parser.add_argument("--other", type=Path, help="the src folder of the tree to compare with")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--record", type=Path, help="write the figures to this JSON file")
    arguments = parser.parse_args()
    from spherec import splits

    data = plant(USERS, ITEMS, PAIRS)
    if arguments.output:
        data.save(arguments.output)
        return
    if arguments.other is None or not (arguments.other / "spherec").is_dir():
        parser.error("--other must be the src folder of another tree, which holds spherec/; or give --output")
    fold = splits.ratio(data, 0.2, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        files = [f"{folder}/train.npz", f"{folder}/test.npz"]
        fold.train.save(files[0])
        fold.test.save(files[1])
        print("this tree")
        this = fit(THIS, FITS["this"], files, arguments)
        print("the other tree")
        other = fit(arguments.other, FITS["other"], files, arguments)
    for record in other:
        good = this[-1:] if record["ndcg"] is None else [one for one in this if one["ndcg"] >= record["ndcg"]]
        best = min(good, key=lambda one: float(one["seconds"]), default=None)
        ratio = "never" if best is None else f"{record['seconds'] / best['seconds']:.1f} times sooner, {describe(best)}"
        verb = "is done" if record["ndcg"] is None else "is as good"
        print(f"{describe(record)} of the other tree: this tree {verb} {ratio}")
    if arguments.record:
        from spherec.device import resolve
        from spherec.lab.environment import environment_of

        environment = environment_of(resolve(arguments.device)) | {"threads": arguments.threads}
        command = " ".join(["python", *sys.argv])
        record = {"command": command, "environment": environment, "pairs": len(data), "this": this, "other": other}
        arguments.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
