"""Which part may import which, read from the sources themselves."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src/spherec").rglob("*.py"))

# A part may import its own folder and parts of a lower level. A new part gets its line here.
LEVELS = {
    "_version": 0,
    "errors": 0,
    "nested": 0,
    "threads": 0,
    "rng": 1,
    "device": 1,
    "geometry": 1,
    "kernels": 1,
    "memory": 1,
    "data": 2,
    "datasets": 3,
    "model": 3,
    "losses": 3,
    "sampling": 3,
    "optim": 3,
    "ranking": 3,
    "tensor_file": 3,
    "training": 4,
    "export": 4,
    "evaluation": 5,
    "artifact": 5,
    "experiments": 6,
    "recommender": 6,
    "bench": 7,
    "compare": 7,
    "tuning": 7,
    "cli": 8,
    "__main__": 9,
    "__init__": 9,
}
POLARS_ONLY_IN = ("data/readers", "export/parquet.py", "recommender/results.py", "recommender/results_file.py")
EXTRAS_IN = {
    "implicit": "compare/implicit_peers.py",
    "matplotlib": ("experiments/plots.py", "compare/plot.py"),
    "pandas": ("recommender/results.py", "bench/reading.py"),
    "usearch": "ranking/usearch.py",
    "optuna": "tuning/package.py",
}
HEAVY = {"pandas", "pyarrow", "matplotlib", "usearch", "fastapi", "uvicorn", "optuna", "implicit"}


def part_of(path: Path) -> str:
    return path.relative_to(ROOT / "src/spherec").parts[0].removesuffix(".py")


def imports_of(path: Path) -> list[tuple[str, bool]]:
    """The modules that a file imports, and whether at its top level."""
    tree = ast.parse(path.read_text())
    top = {id(node) for node in tree.body}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) in top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names = [f"{base}.{alias.name}" for alias in node.names] if base in ("spherec", "spherec.data") else [base]
            found += [(name, id(node) in top) for name in names]
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_imports_only_from_below(path):
    part = part_of(path)
    for module, _ in imports_of(path):
        if module.startswith("spherec."):
            imported = module.split(".")[1]
            assert imported == part or LEVELS[imported] < LEVELS[part], f"{path.name} imports {module}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_a_file_is_one_concept(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 400, "more than 400 lines: split it"
    assert ast.get_docstring(ast.parse(text)), "a file begins by saying what it is"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_randomness_comes_from_named_streams(path):
    if path.name != "rng.py":
        assert not re.search(
            r"np\.random\.|numpy\.random|torch\.(rand|manual_seed)|\bimport random\b", path.read_text()
        )


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_polars_stays_in_the_readers_and_extras_in_their_files(path):
    roots = {module.split(".")[0] for module, _ in imports_of(path)}
    if not any(place in path.as_posix() for place in POLARS_ONLY_IN):
        assert "polars" not in roots
    allowed = {extra for extra, file in EXTRAS_IN.items() if path.as_posix().endswith(file)}
    assert not roots & HEAVY - allowed


def test_in_function_imports_are_only_for_what_may_be_missing():
    late = {
        (path.relative_to(ROOT / "src/spherec").as_posix(), module)
        for path in SOURCES
        for module, at_top in imports_of(path)
        if not at_top
    }
    # polars is absent where models are only trained; torch takes a second, and most commands do without.
    allowed = {
        "spherec.data.readers",
        "polars",
        "pandas",
        "polars.io.plugins",
        "torch",
        "spherec.cli.training",
        "spherec.cli.answering",
        "spherec.recommender",
        "spherec.cli.reproduction",
        "spherec.cli.evaluation",
        "spherec.cli.demonstration",
        "spherec.cli.exporting",
        "spherec.export",  # its parts that bring polars or usearch
        "spherec.cli.benchmarking",
        "spherec.cli.comparing",
        "spherec.compare.plot",
        "implicit",
        "implicit.als",
        "implicit.bpr",
        "implicit.nearest_neighbours",
        "implicit.recommender_base",
        "threadpoolctl",  # comes with implicit
        "spherec.cli.tuning",
        "spherec.tuning.study",  # brings optuna
        "spherec.training.presets",
        "spherec.training.toml",
        "spherec.experiments.plots",
        "matplotlib",
        "matplotlib.figure",
        "matplotlib.ticker",
        "usearch.index",
        "spherec.ranking.usearch",  # an extra
        "optuna",
        "sqlalchemy.exc",
        "spherec.errors",
    }
    assert {module for path, module in late if path != "__init__.py"} <= allowed


def test_preparing_data_does_not_wait_for_torch():
    script = "import sys, spherec.cli; assert not {'torch', 'polars'} & set(sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)


# A machine that only trains has neither polars nor pydantic: what was prepared elsewhere must load and split there.
LIBRARY = """
import spherec
from spherec.training import Training, train
data = spherec.datasets.book_crossing()
fold = spherec.splits.k_fold(data, 4)[0]
fold.train.save("train.npz")
assert spherec.Interactions.load("train.npz") == fold.train
small = spherec.Interactions.from_pairs([0, 0, 1, 1], [0, 1, 1, 2])
assert len(train(small, Training(dim=2, epochs=1, sampler=spherec.Uniform())).history.epochs) == 1
spherec.CML(dim=2, epochs=1, sampler=spherec.Uniform()).fit(small, validation=0).save("model.spherec")
assert len(spherec.load("model.spherec").recommend([0, 1], k=1)) == 2
try:
    spherec.read("x.csv")
except spherec.errors.MissingPackageError as error:
    print(error)
"""
COMMAND = """
from spherec.cli import main
main(["data", "stats", "book-crossing", "--json"])
"""


@pytest.mark.parametrize(
    ("absent", "script", "printed"),
    [
        (["polars", "pydantic", "pandas"], LIBRARY, "pip install polars"),
        (["polars", "pandas"], COMMAND, '"pairs": 240020'),  # some versions of typer bring pydantic
    ],
    ids=["library", "command line"],
)
def test_works_without_what_only_preparing_needs(absent, script, printed, tmp_path):
    block = f"import sys; sys.modules.update(dict.fromkeys({absent!r}))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", block + script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout
