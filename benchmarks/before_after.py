"""Compare the speed of two source trees on one machine, in turns.

    python benchmarks/before_after.py --other PATH/src [--device auto|cpu|cuda] [--quick] [--output FILE]

Measures what users wait for: fits, exact lists, reading of tables, the first list after loading a model, requests per
second with 64 clients. Prints for each the speed of this tree divided by that of the other. Each tree has a process of
its own that stays alive, and files of its own. They take turns chunk by chunk, so other load on the machine meets both
alike. The ratio is the median over the chunks; the spread is the range of its middle half. Exits with 1 if a median is
below --least (0.95). Both trees are used by their public API alone.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).resolve()
THIS = HERE.parents[1] / "src"
CLIENTS = 64
STARTS = {  # each in a process of its own
    "import spherec": "import spherec",
    "first list after load": "import spherec; spherec.load('model.spherec').recommend('247752')",
    "first list after load, mapped": "import spherec; spherec.load('model.spherec', mmap=True).recommend('247752')",
}
SERVE = [sys.executable, "-m", "spherec", "serve", "model.spherec", "--port", "0", "--no-log-requests"]


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
        answer_requests(arguments.device, quick=arguments.quick)
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
    options = ["--device", arguments.device, *(["--quick"] if arguments.quick else [])]
    with ExitStack() as open_:
        trees = [(source, open_.enter_context(tempfile.TemporaryDirectory())) for source in (THIS, other)]
        asks = [open_.enter_context(worker(source, folder, options)) for source, folder in trees]
        for ask in asks:
            names = ask({"name": "save a model", "calls": 1})["names"]
        for name in names:
            if arguments.only in name:
                calls = calibrate(name, seconds, *asks)
                this, before = (timer(ask, name, calls) for ask in asks)
                yield summarise(name, take_turns(chunks, this, before))
        for name, statement in STARTS.items():
            if arguments.only in name:
                this, before = (starter(statement, *tree) for tree in trees)
                yield summarise(name, take_turns(max(chunks // 2, 1), this, before))
        name = f"requests, {CLIENTS} clients"
        if arguments.only in name:
            this, before = (open_.enter_context(server(*tree, seconds)) for tree in trees)
            yield summarise(name, take_turns(chunks, this, before))


Ask = Callable[[dict[str, Any]], dict[str, Any]]
Timer = Callable[[], float]
"""Function that runs one chunk and returns its units per second."""


def timer(ask: Ask, name: str, calls: int) -> Timer:
    return lambda: float(ask({"name": name, "calls": calls})["per_second"])


def starter(statement: str, source: Path, folder: str) -> Timer:
    """Return a timer of a statement in a fresh process, whose unit is one start."""

    def start() -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], cwd=folder, env=environment_for(source), check=True)
        return 1 / (time.perf_counter() - began)

    start()  # reads the files and compiles the modules
    return start


@contextmanager
def server(source: Path, folder: str, seconds: float) -> Iterator[Timer]:
    """Serve the model of a tree; yield a timer of requests."""
    from serve_load import ask, service

    paths = json.loads(Path(folder, "paths.json").read_text())
    with service(*SERVE, source=source, folder=folder) as (address, _):

        def load() -> float:
            tally = asyncio.run(ask(address, paths, CLIENTS, seconds=4 * seconds, most=10**9))
            return len(tally.seconds) / tally.wall

        load()
        yield load


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


def answer_requests(device: str, *, quick: bool) -> None:
    """Answer requests from standard input with the spherec that this process imports."""
    answers, sys.stdout = sys.stdout, sys.stderr
    makers = contenders(device, quick=quick)
    name, contender = "", None
    for line in sys.stdin:
        request = json.loads(line)
        if request["name"] != name:
            contender = None  # frees its memory first
            name, contender = request["name"], makers[request["name"]]()
        assert contender is not None
        began = time.perf_counter()
        units = contender(request["calls"])
        took = time.perf_counter() - began
        names = [name for name in makers if name != "save a model"]
        write(answers, {"seconds": took, "per_second": units / took, "names": names})


Contender = Callable[[int], int]
"""Function that makes the given number of calls and returns the units done."""


def contenders(device: Any, *, quick: bool) -> dict[str, Callable[[], Contender]]:
    """Return what can be measured, by name; each is set up when it is first asked for."""
    import spherec

    whole = spherec.datasets.book_crossing()
    dense = whole.cut(spherec.Cut(min_per_item=5))
    users = list(whole.user_ids)[: 256 if quick else None]

    def repeat(call: Callable[[], object], units: int) -> Contender:
        def make_calls(calls: int) -> int:
            for _ in range(calls):
                call()
            return calls * units

        return make_calls

    def save_a_model() -> Contender:
        model = spherec.CML(epochs=1, device=device).fit(whole, validation=0, progress=False)
        model.save("model.spherec")
        Path("paths.json").write_text(json.dumps([f"/recommend/{user}?k=10" for user in users]))
        return lambda calls: calls

    def fits(settings: dict[str, Any]) -> Contender:
        data, epochs = (whole.cut(spherec.Cut(min_per_item=30)) if "preset" in settings else dense), 2
        model = spherec.CML(epochs=epochs, device=device, **settings)
        return repeat(lambda: model.fit(data, validation=0, progress=False), epochs * data.n_pairs)

    def lists() -> Contender:
        model = spherec.CML.load("model.spherec", device=device)
        return repeat(lambda: model.recommend(users, k=50), len(users))

    def reading(name: str) -> Contender:
        write_tables(rows := 20_000 if quick else 500_000)
        options: Any = {} if name == "prepared" else {"duplicates": "sum"}
        return repeat(lambda: spherec.read(f"events.{name}", **options), rows)

    settings: dict[str, dict[str, Any]] = {
        "uniform, batch 4096": {"sampler": spherec.Uniform(5), "batch_size": 4096},
        "popularity": {"sampler": spherec.Popularity(5)},
        "two-stage": {},
        "two-stage, batch 4096": {"batch_size": 4096},
        "hard": {"sampler": spherec.Hard()},
        "semi-hard": {"sampler": spherec.SemiHard()},
        "fast": {"preset": "fast"},
        "accurate": {"preset": "accurate"},
    }
    return {
        "save a model": save_a_model,
        **{f"fits: {name}": partial(fits, each) for name, each in settings.items()},
        "exact lists": lists,
        **{f"reading: {name}": partial(reading, name) for name in ("csv", "csv.gz", "jsonl", "parquet", "prepared")},
    }


def write_tables(rows: int) -> None:
    """Write the same generated events as tables of several kinds, and one prepared."""
    import numpy as np
    import polars as pl

    import spherec

    random = np.random.default_rng(0)
    users, items = (20_000 * random.random(rows) ** 1.5).astype(int), (50_000 * random.random(rows) ** 2).astype(int)
    frame = pl.DataFrame({"user": [f"reader-{user}" for user in users], "item": [f"{item:010d}" for item in items]})
    frame.write_csv("events.csv")
    subprocess.run(["gzip", "-kf", "events.csv"], check=True)
    frame.write_ndjson("events.jsonl")
    frame.write_parquet("events.parquet")
    spherec.read("events.csv", duplicates="sum").save("events.prepared")


if __name__ == "__main__":
    main()
