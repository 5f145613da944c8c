"""Time fits of iALS in turns: ours, irspack's and implicit's, on the same training part, at the same settings.

    python benchmarks/ials_seconds.py DATA [--test DATA] --irspack PYTHON [--dim 256] [--sweeps 8] [--repeats 3]

irspack lives in an environment of its own, named by its Python. Each fit is a process of its own with two threads. The
time is that of the fit alone, after a tiny one that loads the kernels. NDCG@50 is that of the factors on the test part
of fold 0, or on the test data.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
import torch
from scipy import sparse

from spherec import Interactions, datasets, evaluate, read, splits
from spherec.ials import Factors
from spherec.lab.baselines.scored_ranker import ScoredRanker

OURS = """
import numpy as np, sys, time, torch, spherec
from scipy import sparse
from spherec.ials import Ials, fit_ials
data, config = spherec.Interactions.from_matrix(sparse.load_npz(sys.argv[1])), Ials({weight}, {reg}, sweeps={sweeps})
torch.set_num_threads(2)
fit_ials(data, 8, Ials(1.0, sweeps=1))
began = time.perf_counter()
found = fit_ials(data, {dim}, config)
np.savez(sys.argv[2], users=found.users, items=found.items, seconds=time.perf_counter() - began)
"""
IRSPACK = """
import numpy as np, sys, time
from scipy import sparse
from irspack.recommenders import IALSRecommender
matrix = sparse.load_npz(sys.argv[1]).astype(np.float64)
model = IALSRecommender(matrix, n_components={dim}, alpha0={weight} / matrix.shape[1], reg={reg}, train_epochs={sweeps},
                        solver_type="{solver}", n_threads=2)
began = time.perf_counter()
model.learn()
np.savez(sys.argv[2], users=model.get_user_embedding(), items=model.get_item_embedding(),
         seconds=time.perf_counter() - began)
"""
IMPLICIT = """
import numpy as np, sys, time
from scipy import sparse
from implicit.als import AlternatingLeastSquares
matrix = sparse.load_npz(sys.argv[1])
model = AlternatingLeastSquares({dim}, regularization={reg} * {weight}, alpha=matrix.shape[1] / {weight}, num_threads=2,
                                iterations={sweeps}, random_state=0)
began = time.perf_counter()
model.fit(matrix, show_progress=False)
np.savez(sys.argv[2], users=model.user_factors, items=model.item_factors, seconds=time.perf_counter() - began)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="'book-crossing', or what 'spherec data prepare' wrote")
    parser.add_argument("--test", help="test data, read like DATA; by default fold 0 of 4 is tested")
    parser.add_argument("--irspack", help="Python of an environment with irspack")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--weight", type=float, default=1000.0, help="αI")
    parser.add_argument("--reg", type=float, default=0.01, help="λ")
    parser.add_argument("--sweeps", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    data = datasets.book_crossing() if options.data == "book-crossing" else read(options.data)
    fold = splits.given(data, read(options.test)) if options.test else splits.k_fold(data, 4, seed=0)[0]
    settings = {name: getattr(options, name) for name in ("dim", "weight", "reg", "sweeps")}
    programs = {"spherec": (sys.executable, OURS.format(**settings))}
    for solver in ("CG", "IALSPP", "CHOLESKY") if options.irspack else ():
        programs[f"irspack {solver}"] = (options.irspack, IRSPACK.format(solver=solver, **settings))
    programs["implicit CG"] = (sys.executable, IMPLICIT.format(**settings))
    print(json.dumps({"data": options.data, **settings, "models": measure(fold, programs, options.repeats)}, indent=1))


def measure(fold: splits.Fold, programs: dict[str, tuple[str, str]], repeats: int) -> dict[str, dict[str, object]]:
    """Return the seconds of each fit, and the NDCG of the last, by the names of the programs."""
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    quality = {}
    with tempfile.TemporaryDirectory() as folder:
        matrix, result = Path(folder) / "matrix.npz", Path(folder) / "factors.npz"
        sparse.save_npz(matrix, fold.train.matrix)
        for _ in range(repeats):
            for name, (python, program) in programs.items():
                environment = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1"}
                subprocess.run(
                    [python, "-c", program, matrix, result], check=True, env=environment, capture_output=True
                )
                with np.load(result) as found:
                    seconds[name].append(round(float(found["seconds"]), 2))
                    quality[name] = ndcg(
                        Factors(*(torch.tensor(found[side]).float() for side in ("users", "items"))), fold
                    )
    return {
        name: {"seconds": median(each), "all": each, "ndcg": round(100 * quality[name], 2)}
        for name, each in seconds.items()
    }


def ndcg(factors: Factors, fold: splits.Fold) -> float:
    train: Interactions = fold.train
    ranker = ScoredRanker(lambda users: factors.users[torch.tensor(users)] @ factors.items.T, train.n_items)
    return float(evaluate(ranker, train, fold.test, k=50).ndcg)


if __name__ == "__main__":
    main()
