"""Build the distributions, install them into clean environments, and run there what a newcomer runs.

    python scripts/release_check.py [--python python3.11 python3.13] [--extras serve …] [--no-tests]

Each Python gets an environment with the wheel alone, and one more for each extra: a copy of the first, in which files
are hard links. What is installed is pinned by constraints.txt, but for the extras with hosts of their own, which share
the pin of torch alone. The source archive must give the same files as the wheel. With the first Python, the demo, the
blocks of the README, the tutorial and the other fast tests run against the installed wheel: in a copy of the checkout
whose src/spherec is a link to it. Seconds hold what pip downloads, unless its cache has it. The first failure ends the
check with exit code 1.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FIRST_LIST = (
    "import spherec; data = spherec.datasets.book_crossing(); "
    "assert len(spherec.CML.preset('quick').fit(data, progress=False).recommend('247752')) == 10"
)
USES = {  # what an extra must make possible
    "plots": "import spherec.lab.plots",
    "ann": "import spherec.ranking.usearch",
    "tune": "import spherec.lab.tuning",
    "ray": "import ray.data, spherec.export.ray",
    "compare": "import implicit.bpr, implicit.nearest_neighbours",
    "serve": "import spherec.serve, umap",
    "lenskit": "import spherec.adapters.lenskit",
    "rectools": "import sys; assert sys.version_info < (3, 13) or __import__('spherec.adapters.rectools')",
    "browser": "import axe_playwright_python.sync_playwright, playwright.sync_api",
    "docs": "import furo, latex2mathml, myst_parser, sphinx, sphinx_copybutton, sphinx_design",
    "dev": "import hypothesis, mypy, pytest, ruff",
}
HOSTS = ("lenskit", "rectools")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters; default: this one")
    parser.add_argument("--extras", nargs="*", default=list(PROJECT["optional-dependencies"]), help="default: all")
    parser.add_argument("--no-tests", action="store_true", help="leave out the demo and the tests")
    parser.add_argument("--processes", type=int, default=2, help="of the tests; default: 2")
    asked = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="release-") as name:
        folder = Path(name)
        copy_checkout(folder / "checkout")  # now: the tests are those of the wheel, whatever is edited meanwhile
        wheel = build(folder / "dist")
        bases = [folder / f"python-{number}/required" for number in range(len(asked.python))]
        for python, base in zip(asked.python, bases, strict=True):
            check_python(python, wheel, base, asked.extras)
        if not asked.no_tests:
            run_tests(bases[0], wheel, folder / "checkout", asked.processes)
    print(f"all is well, after {time.perf_counter() - began:.0f} s")


def build(folder: Path) -> Path:
    """Build both distributions; return the wheel, after comparing its files with those of the source archive."""
    run([sys.executable, "-m", "hatchling", "build", "--directory", folder], ROOT)
    (source,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder / "again", source], folder)
    (again,) = (folder / "again").glob("*.whl")
    names = [zipfile.ZipFile(path).namelist() for path in (wheel, again)]
    assert sorted(names[0]) == sorted(names[1]), "the source archive gives another wheel"
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, {source.name}: {source.stat().st_size / 1e6:.1f} MB")
    return wheel


def copy_checkout(checkout: Path) -> None:
    """Copy what git tracks, but for the package."""
    for name in filter(None, run(["git", "ls-files", "-z"], ROOT).split("\0")):
        if not name.startswith("src/"):
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, checkout / name)


def check_python(python: str, wheel: Path, base: Path, extras: list[str]) -> None:
    """Install the wheel alone, into `base`, and with each extra; print rows of a table."""
    base.mkdir(parents=True)
    run([python, "-m", "venv", base], base)
    empty, seconds = megabytes(base), install(base, wheel)
    size, version = megabytes(base), run([base / "bin/python", "--version"], base).split()[1]
    began = time.perf_counter()
    run([base / "bin/python", "-c", FIRST_LIST], base)
    first = f"first list after {time.perf_counter() - began:.0f} s more"
    print("| Python | installed | seconds | MB | |\n|---|---|--:|--:|---|")
    print(f"| {version} | required packages | {seconds:.0f} | {size - empty:,.0f} | {first} |", flush=True)
    for extra in extras:
        own = copy(base, base.with_name(extra))
        seconds = install(own, wheel, extra)
        run([own / "bin/python", "-c", USES[extra]], own)
        more = megabytes(own) - size
        print(f"| {version} | `[{extra}]` in addition | {seconds:.0f} | {more:,.0f} | |", flush=True)
        shutil.rmtree(own)


def install(environment: Path, wheel: Path, extra: str = "") -> float:
    """Install the wheel with an extra; return the seconds, after pip has found that all packages fit together."""
    pins, python = environment / "pins.txt", environment / "bin/python"
    every = (ROOT / "constraints.txt").read_text()
    pins.write_text("\n".join(re.findall(r"^torch==.*", every, re.MULTILINE)) if extra in HOSTS else every)
    began = time.perf_counter()
    wanted = f"{wheel}[{extra}]" if extra else wheel
    run([python, "-m", "pip", "install", "--quiet", "--constraint", pins, wanted], environment)
    seconds = time.perf_counter() - began
    run([python, "-m", "pip", "check"], environment)
    return seconds


def copy(environment: Path, target: Path) -> Path:
    """Copy an environment by hard links; pip replaces files, and writes into none."""
    shutil.copytree(environment, target, symlinks=True, copy_function=os.link)
    return target


def megabytes(environment: Path) -> float:
    return sum(path.stat().st_size for path in environment.rglob("*") if path.is_file()) / 1e6


def run_tests(base: Path, wheel: Path, checkout: Path, processes: int) -> None:
    """Run the demo and the fast tests against the installed wheel."""
    own = copy(base, base.with_name("tested"))
    install(own, wheel, "dev")
    (package,) = own.glob("lib/python*/site-packages/spherec")
    (checkout / "src").mkdir()
    (checkout / "src/spherec").symlink_to(package)
    pytest: list[str | Path] = [own / "bin/python", "-m", "pytest", "-p", "no:cacheprovider"]
    several = ["--numprocesses", str(processes), "--dist", "loadfile"] if processes > 1 else ["-p", "no:xdist"]
    steps: dict[str, list[str | Path]] = {
        "demo": [base / "bin/spherec", "demo", "--force"],
        "README, tutorial and the other pages": [*pytest, "tests/docs"],
        "fast tests": [*pytest, *several, "--ignore", "tests/docs"],
    }
    for title, command in steps.items():
        began = time.perf_counter()
        said = run(command, checkout).rstrip().splitlines()
        counted = [line for line in said[-1:] if "passed" in line]
        print(f"{title}: {time.perf_counter() - began:.0f} s", *counted, flush=True)


def run(command: Sequence[str | Path], folder: Path) -> str:
    """Run a command in a folder, without the path and the packages of this process; return what it printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "VIRTUAL"))}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{done.stdout[-8000:]}{done.stderr[-4000:]}")
    return done.stdout


if __name__ == "__main__":
    main()
