"""Imports: each part imports from below only, extras stay in their files, and late imports have a reason."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/spherec"
TREES = {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}

# The core imports no guest, and no guest another one. The core names guests, as text, where a crew is joined and in the
# list of the kinds of files.
GUESTS = {"distributed", "lab", "serve", "export", "adapters"}

# A part may import its own folder and parts of a lower level. A new part gets its place here.
LEVELS = (
    {"_version", "errors", "rng", "device", "lazy"},
    {"geometry", "data", "datasets", "kernels"},
    {"embedding", "ials", "losses", "sampling", "start", "optim", "ranking"},
    {"training", "evaluation"},
    {"artifact", "recommender"},
    GUESTS,
    {"cli"},
    {"__init__", "__main__"},
)
# Neighbours on a level that may be imported all the same, one way only.
NEIGHBOURS = {
    "rng": {"errors"},
    "device": {"errors"},
    "kernels": {"geometry"},
    "datasets": {"data"},
    "embedding": {"optim"},
    "ials": {"start"},
    "evaluation": {"training"},
    "recommender": {"artifact"},
}
POLARS_ONLY_IN = (
    "data/read",
    "lab/records.py",
    "export/parquet.py",
    "recommender/results.py",
    "recommender/results_file.py",
)
EXTRAS_IN = {
    "implicit": "lab/baselines/implicit_models.py",
    "lenskit": "adapters/lenskit.py",
    "rectools": "adapters/rectools.py",
    "matplotlib": "lab/plots.py",
    "pandas": "recommender/results.py",
    "usearch": "ranking/usearch.py",
    "optuna": "lab/tuning.py",
    "fastapi": ("serve/app.py", "serve/answers.py", "serve/server.py"),
    "starlette": ("serve/app.py", "serve/guard.py"),
    "pydantic": ("serve/schema.py", "adapters/lenskit.py", "adapters/rectools.py"),
    "prometheus_client": "serve/metrics.py",
    "psycopg": "data/event_store.py",
    "rapidfuzz": "serve/name_search.py",
    "sklearn": ("serve/item_map.py", "adapters/implicit.py"),
    "uvicorn": "serve/server.py",
}
HEAVY = {*EXTRAS_IN}


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def level_of(part: str) -> int:
    return next(level for level, parts in enumerate(LEVELS) if part in parts)


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def imports_of(tree: ast.AST) -> list[str]:
    """Return the modules that a tree imports; a name imported from a package counts as its module."""
    modules = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            is_package = base == "spherec" or (PACKAGE.parent / base.replace(".", "/")).is_dir()
            modules += [f"{base}.{alias.name}" for alias in node.names] if is_package else [base]
    return modules


def late_imports_of(tree: ast.AST) -> list[str]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [module for function in functions for module in imports_of(function)]


IMPORTS = {path: imports_of(tree) for path, tree in TREES.items()}


def test_imports_only_from_below():
    for path, modules in IMPORTS.items():
        part = part_of(path)
        for module in modules:
            if module.startswith("spherec."):
                imported = module.split(".")[1]
                is_allowed = (
                    imported == part
                    or imported in NEIGHBOURS.get(part, ())
                    or (part in LEVELS[-1] and imported.startswith("__"))
                    or level_of(imported) < level_of(part)
                )
                assert is_allowed, f"{name_of(path)} imports {module}"


def test_every_part_has_a_level_and_no_level_names_what_is_gone():
    parts = {part_of(path) for path in TREES}
    assert parts <= set().union(*LEVELS)
    assert not parts & {"utils", "util", "common", "helpers", "misc"}


def test_a_file_begins_with_a_docstring():
    assert not [name_of(path) for path, tree in TREES.items() if not ast.get_docstring(tree)]


def test_randomness_comes_from_named_streams():
    other = re.compile(r"np\.random\.|numpy\.random|torch\.(rand|manual_seed)|\bimport random\b")
    assert not [name_of(path) for path in TREES if path.name != "rng.py" and other.search(path.read_text())]


def test_polars_stays_where_files_are_read_and_extras_in_their_files():
    for path, modules in IMPORTS.items():
        roots = {module.split(".")[0] for module in modules}
        if not any(place in path.as_posix() for place in POLARS_ONLY_IN):
            assert "polars" not in roots, name_of(path)
        allowed = {extra for extra, file in EXTRAS_IN.items() if path.as_posix().endswith(file)}
        assert not roots & HEAVY - allowed, name_of(path)


# Imports inside functions, by the file that may hold them; a file stands for its folder, too.
LATE = {
    # A command imports what it needs in its first lines: torch takes a second, and most commands do without.
    "cli": {"spherec", "torch"},
    # polars is absent where models are only trained.
    "": {"polars", "pandas", "spherec.data.read"},
    "rng.py": {"torch"},
    # Triton comes with the CUDA builds of torch only.
    "kernels/__init__.py": {"spherec.kernels.cuda"},
    # extras
    "lab": {"implicit", "threadpoolctl", "spherec.lab.tuning"},
    "export": {"spherec.export", "spherec.ranking.usearch", "usearch"},
    "ranking": {"usearch"},
    "data/event_store.py": {"psycopg"},
    "serve": {"rapidfuzz", "sklearn"},
    "adapters": {"sklearn"},
    "recommender": {"spherec.ranking.usearch"},
}


def test_in_function_imports_are_only_for_what_may_be_missing_or_slow():
    for path, tree in TREES.items():
        if path == PACKAGE / "__init__.py":
            continue  # the whole package is loaded late
        name = name_of(path)
        allowed = set().union(*(modules for place, modules in LATE.items() if place in ("", name, name.split("/")[0])))
        for module in late_imports_of(tree):
            assert any(module == known or module.startswith(f"{known}.") for known in allowed), f"{name}: {module}"


def run_script(script, **how):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    words = [sys.executable, "-c", script]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, **how)


@pytest.mark.parametrize(
    ("statement", "not_imported"),
    [
        ("import spherec", {"numpy", "scipy", "torch", "polars", "typer"}),
        ("from spherec.cli import main; main(['--help'])", {"numpy", "scipy", "torch", "polars"}),
        ("import spherec.cli.data", {"torch", "polars"}),
        ("import spherec.recommender", {"scipy.signal", "scipy.stats", "polars", "pandas"}),
    ],
)
def test_nothing_slow_is_imported_before_it_is_needed(statement, not_imported):
    script = (
        f"import atexit, sys; atexit.register(lambda: print(*sys.modules, sep='\\n', file=sys.stderr)); {statement}"
    )
    done = run_script(script)
    assert done.returncode == 0, done.stderr
    assert not not_imported & set(done.stderr.split())


# A machine that only trains has neither polars nor pydantic: what was prepared elsewhere must load and split there.
LIBRARY = """
import spherec
from spherec.training import Run, Training, train
data = spherec.datasets.book_crossing()
fold = spherec.splits.k_fold(data, 4)[0]
fold.train.save("train.npz")
assert spherec.Interactions.load("train.npz") == fold.train
small = spherec.Interactions.from_pairs([0, 0, 1, 1], [0, 1, 1, 2])
assert len(train(Run(small, Training(dim=2, epochs=1, sampler=spherec.Uniform()))).history.epochs) == 1
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
    done = run_script(f"import sys; sys.modules.update(dict.fromkeys({absent!r}))" + script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout
