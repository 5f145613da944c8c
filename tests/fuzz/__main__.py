"""Fuzzing, bounded in time: `make fuzz`, or `python -m tests.fuzz --seconds 120 --seed 7 --targets model,data`.

Inputs that failed before (tests/fuzz/cases) are replayed first; then every target gets its share of the time. A target
runs in a process of its own, so that a crash ends this process alone: the input is kept, and a new process continues
with the next one. What fails is written to tests/fuzz/cases; commit it together with the mend.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import random
import resource
import secrets
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

from spherec.errors import SpherecError
from tests.fuzz.targets import TARGETS

CASES = Path(__file__).parent / "cases"
CPU_SECONDS = 10  # for one input
WALL_SECONDS = 60  # for one input, where it waits instead of computing
MEMORY = 1 << 30  # bytes by which one input may raise the peak of the process
ADDRESS_SPACE = 8 << 30  # bytes that a process may have beyond those at its start
LONGEST_MESSAGE = 2000


class TooLongError(BaseException):
    """An input took more than its CPU time."""


def judge(target, case, folder):
    """None if the target keeps its promise on this input, else what went wrong."""
    signal.signal(signal.SIGPROF, _stop)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.run(case, folder)
    except SpherecError as error:
        if not 0 < len(str(error)) <= LONGEST_MESSAGE:
            return f"a message of {len(str(error)):,} characters"
    except BaseException as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/spherec/" in frame.filename]
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "the target"
        return f"{type(error).__name__} at {place}: {str(error)[:200]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    return f"{grown / 1e9:.1f} GB of memory" if grown > MEMORY else None


def _stop(number, frame):
    raise TooLongError(f"more than {CPU_SECONDS} s of CPU time")


def make_case(name, seed, number):
    """The input of this number; the same for the same seed."""
    return TARGETS[name].make(random.Random(f"{seed}/{name}/{number}"))


def kept_cases(name):
    """The inputs of this target that failed before."""
    return [file.read_bytes() for file in sorted(CASES.glob(f"{name}-{'[0-9a-f]' * 12}.bin"))]


def keep_case(name, case):
    CASES.mkdir(exist_ok=True)
    file = CASES / f"{name}-{hashlib.sha1(case, usedforsecurity=False).hexdigest()[:12]}.bin"
    file.write_bytes(case)
    return file


def _child(name, seed, first, deadline, folder, replay):
    """Run inputs until the deadline; write each to a file first, and what fails to another."""
    soft = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + ADDRESS_SPACE
    resource.setrlimit(resource.RLIMIT_AS, (soft, soft))
    sys.stderr = open(folder / "stderr", "a")  # noqa: SIM115
    os.dup2(sys.stderr.fileno(), 2)
    work, target = folder / "work", TARGETS[name]
    work.mkdir(exist_ok=True)
    old, number, seen = kept_cases(name) if replay else [], first, set()
    while old or time.monotonic() < deadline:
        is_old = bool(old)
        case = old.pop() if is_old else make_case(name, seed, number)
        (folder / "current").write_bytes(case)
        problem = judge(target, case, work)
        number += not is_old
        with open(folder / "done", "a") as done:
            done.write(json.dumps({"number": number, "problem": problem}) + "\n")
        if problem:
            kind = problem.rpartition(":")[0]
            if kind not in seen:  # one of each kind is enough
                keep_case(name, case)
            seen.add(kind)
        shutil.rmtree(work)
        work.mkdir()


def fuzz(name, seed, seconds):
    """Fuzz one target; return the number of inputs and a list of problems."""
    count, problems, deadline = 0, [], time.monotonic() + seconds
    replay = True
    while replay or time.monotonic() < deadline:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            child = multiprocessing.get_context("fork").Process(
                target=_child, args=(name, seed, count, deadline, folder, replay)
            )
            child.start()
            replay, hung = False, False
            while child.is_alive():
                child.join(1)
                current = folder / "current"
                if child.is_alive() and current.exists() and time.time() - current.stat().st_mtime > WALL_SECONDS:
                    hung = True
                    child.kill()
            done = folder / "done"
            lines = [json.loads(line) for line in done.read_text().splitlines()] if done.exists() else []
            problems += [line["problem"] for line in lines if line["problem"]]
            count = lines[-1]["number"] if lines else count
            if child.exitcode:
                stderr = folder / "stderr"
                last = stderr.read_text(errors="replace").strip()[-300:] if stderr.exists() else ""
                what = f"no answer within {WALL_SECONDS} s" if hung else f"the process ended with {child.exitcode}"
                if (folder / "current").exists():
                    keep_case(name, (folder / "current").read_bytes())
                problems.append(f"{what}: {last}")
                count += 1
    return count, problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120, help="time in all")
    parser.add_argument("--seed", default=None, help="seed; by default a new one, which is printed")
    parser.add_argument("--targets", default=",".join(TARGETS), help="comma-separated; by default all")
    options = parser.parse_args()
    seed = options.seed or secrets.token_hex(4)
    names = options.targets.split(",")
    print(f"seed {seed}, {options.seconds:g} s for {len(names)} targets", flush=True)
    failed = 0
    for name in names:
        count, problems = fuzz(name, seed, options.seconds / len(names))
        failed += len(problems)
        print(f"{name:20} {count:7,} inputs  {len(problems):4} failed", flush=True)
        kinds = Counter(problem.rpartition(":")[0] for problem in problems)
        examples = {problem.rpartition(":")[0]: problem for problem in problems}
        for kind, times in kinds.most_common():
            print(f"    {times} x {examples[kind]}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
