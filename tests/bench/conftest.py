"""The scripts of benchmarks/ are modules of no package: their folder is put on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
