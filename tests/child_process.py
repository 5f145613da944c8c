"""A process of its own for what a test must not do in its own, such as being killed; it answers line by line."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]


@contextmanager
def answering(module):
    """Run a module that answers each line of JSON with another; yield the function that asks it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))), "OMP_NUM_THREADS": "1"}
    command, pipe = [sys.executable, "-m", module], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, cwd=ROOT, text=True) as process:

        def ask(wanted):
            process.stdin.write(json.dumps(wanted) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask
