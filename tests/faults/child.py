"""A child process for the fault tier: trains as `spherec train` does, and dies or fails at one call on its files.

    python -m tests.faults.child FOLDER ACTION CALL [--resume]

Calls on files below FOLDER are counted: open for writing, write, fsync, rename, unlink. At number CALL (from 1) the
process kills itself just before the call, with ACTION "before", or just after it, with "after"; "error" raises EIO
instead, and "full" raises ENOSPC at this call and all later ones. With CALL 0 nothing happens, and the calls are
printed. The product knows nothing of this.
"""

import errno
import io
import json
import os
import signal
import sys
from pathlib import Path

FOLDER, ACTION, CALL = Path(sys.argv[1]).resolve(), sys.argv[2], int(sys.argv[3])
calls: list[str] = []


def name_of(path: object) -> str | None:
    """The path below FOLDER, with random parts of names left out; None if it is elsewhere."""
    if isinstance(path, int):
        path = os.readlink(f"/proc/self/fd/{path}")  # noqa: PTH115
    whole = Path(os.path.abspath(os.fspath(path)))  # type: ignore[call-overload]
    if whole != FOLDER and FOLDER not in whole.parents:
        return None
    name = whole.name
    return f"{name[:-14]}.part" if name.endswith(".part") else name


def at_call(what: str, path: object, act):
    name = name_of(path)
    if name is None or name == "data.npz":
        return act()
    calls.append(f"{what} {name}")
    is_now = len(calls) == CALL
    if is_now and ACTION == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    if is_now and ACTION == "error":
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    if CALL and len(calls) >= CALL and ACTION == "full" and what in ("open", "write", "fsync"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    result = act()
    if is_now and ACTION == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return result


class Watched(io.FileIO):
    """A file whose writes are calls."""

    def write(self, content):
        return at_call("write", self.fileno(), lambda: super(Watched, self).write(content))


def install() -> None:
    plain = {name: getattr(os, name) for name in ("open", "fsync", "rename", "replace", "unlink")}
    plain_open = open

    def low_open(path, flags, *given, **options):
        if flags & os.O_CREAT:
            return at_call("open", path, lambda: plain["open"](path, flags, *given, **options))
        return plain["open"](path, flags, *given, **options)

    def high_open(path, mode="r", *given, **options):
        if "b" in mode and "w" in mode and name_of(path) is not None:
            return io.BufferedWriter(Watched(path, "w"))
        return plain_open(path, mode, *given, **options)

    import builtins

    os.open, builtins.open = low_open, high_open
    os.fsync = lambda descriptor: at_call("fsync", descriptor, lambda: plain["fsync"](descriptor))
    for name in ("rename", "replace"):
        setattr(os, name, lambda old, new, name=name: at_call("rename", new, lambda: plain[name](old, new)))
    os.unlink = lambda path, **options: at_call("unlink", path, lambda: plain["unlink"](path, **options))


def main() -> None:
    from spherec.cli import main as run
    from spherec.training import trainer

    class Often:
        """Due at every third step, whatever the clock says, so that each child makes the same calls."""

        def __init__(self, _: float) -> None:
            self._asked = 0

        def is_due(self) -> bool:
            self._asked += 1
            return self._asked % 3 == 0

    trainer.Timer = Often  # type: ignore[misc]
    options = "--device cpu --epochs 2 --dim 4 --batch-size 64 --set validate_every=1 --json"
    install()
    try:
        run(["train", str(FOLDER / "data.npz"), "-o", str(FOLDER / "m.spherec"), *options.split(), *sys.argv[4:]])
    finally:
        if not CALL:
            sys.stderr.write("CALLS " + json.dumps(calls) + "\n")


if __name__ == "__main__":
    main()
