"""Resolve constraints.txt, without installing anything, for each supported Python and both builds of torch.

python scripts/resolve_constraints.py [--index URL]      # an index that has torch's CPU builds

Interpreters are taken from PATH and from pyenv. What does not exist here (an interpreter, a CPU build for it) is named,
not counted as a failure. Exit code 1: something does not resolve.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13")
WANTED = ".[dev,docs]"


def find_interpreter(version: str) -> str | None:
    """Return a Python of that version which starts; shims of pyenv exist also where they do not."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"{version}.*/bin/python")))]
    for path in filter(None, found):
        if subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            return path
    return None


def dry_run(python: str, index: str | None, *wanted: str) -> str:
    """Return what pip says against these requirements; nothing if there are versions that fit together."""
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--dry-run", "--ignore-installed", "--quiet"]
    command += ["--disable-pip-version-check", *(["--extra-index-url", index] if index else []), *wanted]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def main() -> int:
    """Print a line for each Python and build."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", help="an index that has torch's CPU builds, if pip is not set up with one")
    index = parser.parse_args().index
    pinned = re.search(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned, "constraints.txt pins torch"
    failures = 0
    for version in VERSIONS:
        python = find_interpreter(version)
        # === takes the version literally: 2.13.0 alone would also accept 2.13.0+cpu.
        for build, torch in (("ordinary", f"torch==={pinned[1]}"), ("CPU", f"torch==={pinned[1]}+cpu")):
            if python is None:
                answer = "not tried: there is no such interpreter"
            elif dry_run(python, index, "--no-deps", torch):
                answer = "not tried: no index has this build"
            elif said := dry_run(python, index, "--constraint", "constraints.txt", WANTED, torch):
                answer, failures = f"FAILED\n{said}", failures + 1
            else:
                answer = "resolved"
            print(f"Python {version}, {build} build of torch {pinned[1]}: {answer}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
