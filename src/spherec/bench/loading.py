"""How long it takes until one can begin."""

import os
import statistics
import subprocess
import sys
import time

from spherec.bench.record import LoadingResult


def measure_loading(*, times: int, data: float | None) -> LoadingResult:
    """Imports, each so many times in a process of its own; `data` is how long loading the data set took."""
    return LoadingResult(
        python=_seconds("pass", times),
        import_torch=_seconds("import torch", times),
        import_spherec=_seconds("import spherec", times),
        import_training=_seconds("import spherec.training", times),
        data=data,
    )


def _seconds(statement: str, times: int) -> float:
    """The median."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    took = []
    for _ in range(times):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], env=environment, check=True)
        took.append(time.perf_counter() - began)
    return statistics.median(took)
