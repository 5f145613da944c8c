"""Compare the speed of two source trees on one machine, in turns.

    python benchmarks/before_after.py --other PATH/src [--device auto|cpu|cuda] [--quick] [--output FILE]

Measures the figures of `spherec bench` (training steps, exact lists, reading a CSV, imports, loading the data set) in
this tree and in the other one, and prints for each the speed of this tree divided by that of the other. Each tree has
a process of its own that stays alive. They take turns chunk by chunk, so other load on the machine meets both alike.
The ratio is the median over the chunks; the spread is the range of its middle half. Exits with 1 if a median is below
--least (0.95).

The other tree may be as old as cd2ac73: the few names that have changed since are looked up under both.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).resolve()
THIS = HERE.parents[1] / "src"
IMPORTS = {"import spherec": "import spherec", "import spherec.training": "import spherec.training"}
LOADING = "import spherec; spherec.datasets.book_crossing()"


@dataclass(frozen=True)
class Figure:
    """Speed of this tree divided by that of the other, over all chunks."""

    name: str
    ratio: float
    "Median over the chunks."
    low: float
    "First quartile."
    high: float
    "Third quartile."
    this: float
    "Median of units per second in this tree."
    other: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", type=Path, help="the src folder of the tree to compare with")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--chunks", type=int, help="default: 15, or 3 with --quick")
    parser.add_argument("--seconds", type=float, help="length of a chunk; default: 0.5, or 0.05 with --quick")
    parser.add_argument("--quick", action="store_true", help="fewer settings, few and short chunks")
    parser.add_argument("--only", default="", help="measure only the figures whose name contains this text")
    parser.add_argument("--least", type=float, default=0.95, help="smallest ratio that is accepted")
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        serve(arguments.device, quick=arguments.quick)
        return
    if arguments.other is None or not (arguments.other / "spherec").is_dir():
        parser.error("--other must be the src folder of another tree, which holds spherec/")
    chunks = arguments.chunks or (3 if arguments.quick else 15)
    seconds = arguments.seconds or (0.05 if arguments.quick else 0.5)
    figures = []
    for figure in compare(arguments.other, chunks, seconds, arguments):
        figures.append(figure)
        print(describe(figure), flush=True)
    worst = min(figures, key=lambda figure: figure.ratio)
    print(f"least ratio: {worst.ratio:.3f} ({worst.name})")
    if arguments.output:
        record = {"command": " ".join(["python", *sys.argv]), "chunks": chunks, "seconds": seconds}
        record |= {"device": arguments.device, "figures": [asdict(figure) for figure in figures]}
        arguments.output.write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(worst.ratio < arguments.least)


def describe(figure: Figure) -> str:
    """Return one line for a figure."""
    spread = f"[{figure.low:.3f}, {figure.high:.3f}]"
    return f"{figure.name:36} {figure.ratio:6.3f}  {spread:16}  {figure.this:14,.1f} {figure.other:14,.1f} per second"


def compare(other: Path, chunks: int, seconds: float, arguments: argparse.Namespace) -> Iterator[Figure]:
    """Measure figure after figure, in turns between the trees."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--device", arguments.device, *(["--quick"] if arguments.quick else [])]
        with worker(THIS, folder, options) as this_ask, worker(other, folder, options) as other_ask:
            for name in this_ask({"names": True})["names"]:
                if arguments.only not in name:
                    continue
                calls = calibrate(name, seconds, this_ask, other_ask)
                yield summarise(name, take_turns(chunks, *(timer(ask, name, calls) for ask in (this_ask, other_ask))))
    for name, statement in {**IMPORTS, "load the data set": LOADING}.items():
        if arguments.only in name:
            starts = (starter(statement, THIS), starter(statement, other))
            yield summarise(name, take_turns(max(chunks // 2, 1), *starts))


Ask = Callable[[dict[str, Any]], dict[str, Any]]
Timer = Callable[[], float]
"""Function that runs one chunk and returns its units per second."""


def timer(ask: Ask, name: str, calls: int) -> Timer:
    return lambda: float(ask({"name": name, "calls": calls})["per_second"])


def starter(statement: str, source: Path) -> Timer:
    """Return a timer of a statement in a fresh process, whose unit is one start."""

    def start() -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], env=environment_for(source), check=True)
        return 1 / (time.perf_counter() - began)

    start()  # reads the files and compiles the modules
    return start


def calibrate(name: str, seconds: float, *asks: Ask) -> int:
    """Set up a figure in both trees and return the number of calls that take about `seconds` seconds in the first."""
    for ask in asks:
        ask({"name": name, "calls": 1})
    calls = 1
    while True:
        took = float(asks[0]({"name": name, "calls": calls})["seconds"])
        if took >= seconds / 4:
            return max(round(calls * seconds / took), 1)
        calls *= 2


def take_turns(chunks: int, this: Timer, other: Timer) -> list[tuple[float, float]]:
    """Return pairs of speeds; each tree comes first in every other pair."""
    pairs = []
    for chunk in range(chunks):
        if chunk % 2:
            speed = this()
            pairs.append((speed, other()))
        else:
            speed = other()
            pairs.append((this(), speed))
    return pairs


def summarise(name: str, pairs: list[tuple[float, float]]) -> Figure:
    ratios = sorted(this / other for this, other in pairs)
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    this, other = (statistics.median(speeds) for speeds in zip(*pairs, strict=True))
    return Figure(name, statistics.median(ratios), low, high, this, other)


def environment_for(source: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(source.resolve())}


@contextmanager
def worker(source: Path, folder: str, options: list[str]) -> Iterator[Ask]:
    """Start a process that imports spherec from `source` and answers requests, a line of JSON each."""
    command = [sys.executable, str(HERE), "--worker", *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=folder, env=environment_for(source), stdin=pipe, stdout=pipe, text=True
    ) as process:

        def ask(request: dict[str, Any]) -> dict[str, Any]:
            write(process.stdin, request)
            answer = process.stdout.readline() if process.stdout else ""
            if not answer:
                raise SystemExit(f"the process of {source} ended; its message is above")
            return dict(json.loads(answer))

        try:
            yield ask
        finally:
            if process.stdin:
                process.stdin.close()


def write(pipe: IO[str] | None, message: dict[str, Any]) -> None:
    assert pipe is not None
    pipe.write(json.dumps(message) + "\n")
    pipe.flush()


# The process of one tree


def serve(device_name: str, *, quick: bool) -> None:
    """Answer requests from standard input with the spherec that this process imports."""
    answers, sys.stdout = sys.stdout, sys.stderr
    makers = contenders(device_name, quick=quick)
    name, contender, wait = "", None, None
    for line in sys.stdin:
        request = json.loads(line)
        if "names" in request:
            write(answers, {"names": list(makers)})
            continue
        if request["name"] != name:
            contender = None  # frees its memory first
            name, (contender, wait) = request["name"], makers[request["name"]]()
        assert contender is not None
        assert wait is not None
        wait()
        began = time.perf_counter()
        units = contender(request["calls"])
        wait()
        took = time.perf_counter() - began
        write(answers, {"seconds": took, "per_second": units / took})


Contender = Callable[[int], int]
"""Function that makes the given number of calls and returns the units done."""
Maker = Callable[[], tuple[Contender, Callable[[], None]]]


def contenders(device_name: str, *, quick: bool) -> dict[str, Maker]:
    """Return what can be measured, by name; each is set up when it is first asked for."""
    import numpy as np
    import torch

    import spherec
    from spherec import rng
    from spherec.bench import steps as bench_steps
    from spherec.device import resolve
    from spherec.ranking import ExactRanker
    from spherec.training import Training
    from spherec.training.presets import PRESETS

    device = resolve(device_name)  # type: ignore[arg-type]
    data = spherec.datasets.book_crossing()
    samplers: Any = getattr(bench_steps, "MEASURED_SAMPLERS", None) or vars(bench_steps)["SAMPLERS"]
    trainer_steps: Any = getattr(bench_steps, "TrainerSteps", None) or vars(bench_steps)["Steps"]

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    def initial(dim: int = 128) -> Any:
        generator = rng.torch_stream(0, "initial vectors")
        try:
            from spherec.geometry import DenseVectors
        except ImportError:
            from spherec.model import MetricModel  # type: ignore[import-not-found, unused-ignore]

            return MetricModel.initial(data.n_users, data.n_items, dim, generator).to(device)
        return DenseVectors.random(data.n_users, data.n_items, dim, generator).to(device)

    def make_steps(sampler: str, negatives: int, batch: int) -> tuple[Contender, Callable[[], None]]:
        return run_steps(Training(dim=128, sampler=samplers[sampler](negatives), batch_size=batch))

    def run_steps(config: Training) -> tuple[Contender, Callable[[], None]]:
        steps = trainer_steps(data, config, initial(config.dim))
        steps.set_up()
        return lambda calls: int(steps(calls).units), wait

    def make_lists() -> tuple[Contender, Callable[[], None]]:
        vectors = initial()
        ranker = ExactRanker(getattr(vectors, "vectors", vectors))
        users = np.arange(256 if quick else data.n_users)

        def rank(calls: int) -> int:
            for _ in range(calls):
                ranker.top(users, 50, without=data)
            return calls * len(users)

        return rank, wait

    def make_reading() -> tuple[Contender, Callable[[], None]]:
        rows, path = (100_000 if quick else 1_000_000), Path(f"events-{os.getpid()}.csv")
        random = rng.stream(0, "events")
        users, items = (
            (20_000 * random.random(rows) ** 1.5).astype(int),
            (50_000 * random.random(rows) ** 2).astype(int),
        )
        lines = [f"reader-{user},{item:010d}" for user, item in zip(users.tolist(), items.tolist(), strict=True)]
        path.write_text("\n".join(["user,item", *lines, ""]))

        def read(calls: int) -> int:
            for _ in range(calls):
                spherec.read(path, user="user", item="item", duplicates="sum")
            return calls * rows

        return read, lambda: None

    settings = [
        (sampler, negatives, batch)
        for sampler in samplers
        for negatives in ((5,) if quick else (1, 5))
        for batch in ((256,) if quick else (256, 4096))
    ]
    makers: dict[str, Maker] = {
        f"steps: {sampler}, N = {negatives}, batch {batch}": partial(make_steps, sampler, negatives, batch)
        for sampler, negatives, batch in settings
    }
    accurate = PRESETS["accurate"].training
    accurate = replace(accurate, dim=128, subspace_dim=None) if quick else accurate
    makers["steps: accurate"] = partial(run_steps, accurate)
    makers["exact lists"] = make_lists
    if find_spec("polars") is not None:
        makers["reading a CSV"] = make_reading
    return makers


if __name__ == "__main__":
    main()
