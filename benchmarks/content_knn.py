"""Score content alone on new items of citeulike-t: words, tags, and both.

    python benchmarks/content_knn.py FOLDER [--seeds 0 1 2] [--k 50]

FOLDER has users.dat, mult.dat and tag-item.dat, plain or gzipped. Users have at least 10 articles; 20 % of the articles
are cold, and 20 % of each user's others are held out. Prints Recall and NDCG in percent, one line for each seed.
"""

import argparse
from pathlib import Path

from spherec import Cut, Features, read, read_features, splits
from spherec.evaluation import evaluate_cold
from spherec.lab import ContentKnn


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--k", type=int, default=50)
    options = parser.parse_args()
    users, words, tags = (next(options.folder.glob(f"{name}.dat*")) for name in ("users", "mult", "tag-item"))
    data = read(users, cut=Cut(min_per_user=10))
    sources = {"words": read_features(words), "tags": read_features(tags)}
    sources["words and tags"] = Features.join(*sources.values())
    print(data)
    for name, features in sources.items():
        for seed in options.seeds:
            fold = splits.cold_items(data, share=0.2, test=0.2, seed=seed)
            scores = evaluate_cold(ContentKnn(features).fit(fold.train), fold, k=options.k, metrics=["recall", "ndcg"])
            parts = {"cold": scores.cold, "warm": scores.warm, "all": scores.all}
            shown = (f"{part} {100 * each.recall:.2f} / {100 * each.ndcg:.2f}" for part, each in parts.items())
            print(f"{name}, seed {seed}: {', '.join(shown)}")


if __name__ == "__main__":
    main()
