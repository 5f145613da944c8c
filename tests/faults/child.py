"""Runs of `spherec train` that die or fail at one call on their files.

    python -m tests.faults.child

A server: for each line of JSON on standard input, {"folder": …, "action": …, "call": …, "options": […]}, it forks a
child that trains, and prints a line: its exit status, what it said, and its calls. Calls on files in the folder are
counted: open to create, write, fsync, rename, unlink. At number `call`, from 1, the child kills itself just before the
call ("before") or just after it ("after"), the call fails with EIO ("error"), or this and all later calls that need
room fail with ENOSPC ("full"). The product knows nothing of this.
"""

import builtins
import errno
import io
import json
import os
import signal
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from spherec.cli import main as spherec
from spherec.recommender import CML
from spherec.training import trainer

OPTIONS = "--device cpu --epochs 2 --dim 4 --set batch_size=64 --set validate_every=1 --json --force"
NEEDS_ROOM = ("open", "write", "fsync")


class Faults:
    """The calls of a child on its files, and what happens at one of them."""

    def __init__(self, folder, action, call):
        self.folder, self.action, self.call = Path(folder).resolve(), action, call
        self.calls = []

    def at(self, what, path, act):
        """Make the call `act`, or what is to happen instead."""
        name = self._name(path)
        if name is None or name == "data.npz":
            return act()
        self.calls.append(f"{what} {name}")
        is_now = len(self.calls) == self.call
        if is_now and self.action == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if is_now and self.action == "error":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if 0 < self.call <= len(self.calls) and self.action == "full" and what in NEEDS_ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        try:
            return act()
        finally:
            if is_now and self.action == "after":
                os.kill(os.getpid(), signal.SIGKILL)

    def _name(self, path):
        """The name in the folder, without its random part; None for a file elsewhere."""
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")  # noqa: PTH115
        whole = Path(os.path.abspath(path))
        if self.folder not in (whole, whole.parent):
            return None
        return f"{whole.name[:-14]}.part" if whole.name.endswith(".part") else whole.name

    def install(self):
        """Replace the calls of this process."""
        plain = {name: getattr(os, name) for name in ("open", "fsync", "rename", "replace", "unlink")}
        plain_open, faults = open, self

        class Watched(io.FileIO):
            def write(self, content):
                return faults.at("write", self.fileno(), lambda: super(Watched, self).write(content))

        def low_open(path, flags, *given, **options):
            def act():
                return plain["open"](path, flags, *given, **options)

            return faults.at("open", path, act) if flags & os.O_CREAT else act()

        def high_open(path, mode="r", *given, **options):
            if mode == "wb" and faults._name(path) is not None:
                return io.BufferedWriter(Watched(path, "w"))
            return plain_open(path, mode, *given, **options)

        os.open, builtins.open = low_open, high_open
        os.fsync = lambda descriptor: faults.at("fsync", descriptor, lambda: plain["fsync"](descriptor))
        os.unlink = lambda path, **options: faults.at("unlink", path, lambda: plain["unlink"](path, **options))
        for name in ("rename", "replace"):
            setattr(os, name, lambda old, new, name=name: faults.at("rename", new, lambda: plain[name](old, new)))


class EveryThirdTime:
    """In place of a timer: due at every third step, so that all children make the same calls."""

    def __init__(self, _):
        self._asked = 0

    def is_due(self):
        self._asked += 1
        return self._asked % 3 == 0


def train(folder, action, call, options, log):
    """Train in this process, which ends here."""
    code = 99
    for stream in (1, 2):
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    faults = Faults(folder, action, call)
    faults.install()
    trainer.Timer = EveryThirdTime
    try:
        warnings.simplefilter("always")
        spherec(["train", f"{folder}/data.npz", "-o", f"{folder}/m.spherec", *OPTIONS.split(), *options])
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException as error:
        sys.stderr.write(f"Traceback: {error!r}\n")
    finally:
        sys.stdout.flush()
        sys.stderr.write("CALLS " + json.dumps(faults.calls) + "\n")
        sys.stderr.flush()
        os._exit(code)


def serve():
    rows = (np.random.default_rng(1).random((9, 9)) < 0.5).astype(int)
    CML(dim=4, epochs=1, device="cpu").fit(
        rows, orientation="users x items", progress=False
    )  # compiled before the fork
    for line in sys.stdin:
        wanted = json.loads(line)
        with tempfile.TemporaryDirectory() as place:
            log = Path(place) / "log"
            child = os.fork()
            if child == 0:
                train(**wanted, log=log)
            _, status = os.waitpid(child, 0)
            said, _, calls = log.read_text().partition("CALLS ")
        code = os.waitstatus_to_exitcode(status)
        print(json.dumps({"code": code, "said": said, "calls": json.loads(calls or "[]")}), flush=True)


if __name__ == "__main__":
    serve()
