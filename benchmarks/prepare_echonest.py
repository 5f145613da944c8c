"""Measure time and peak memory of preparing a file of the size of the EchoNest Taste Profile, compared with pandas.

    python benchmarks/prepare_echonest.py [--rows 48000000] [--folder DIR] [--output results/bench/prepare.json]
    python benchmarks/prepare_echonest.py --rows 20000000 --only partitions --output partitions.json

The file is generated in the official format (user, song, plays; tabs, no header) with a million users and 380,000
songs, both skewed. Each contender runs in a process of its own, one after the other: spherec with and without the
paper's cut, and into partitions; pandas that only reads, and pandas that makes the same cut.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

from spherec import rng

USERS, SONGS, CHUNK = 1_000_000, 380_000, 2_000_000

PREPARE = ["-m", "spherec", "data", "prepare", "{file}", "-o", "{folder}/prepared.npz", "--json"]
PARTITIONS = ["-m", "spherec", "data", "prepare", "{file}", "-o", "{folder}/parts", "--partitions", "16", "--json"]
PANDAS = "import json, pandas; frame = pandas.read_csv('{file}', sep='\\t', names=['user', 'song', 'plays']); "
PANDAS_JOB = """
frame = frame.groupby(["user", "song"], as_index=False, sort=False)["plays"].sum()
frame = frame[frame["plays"] >= 5]
frame = frame[frame.groupby("user")["song"].transform("size") > 20]
frame = frame[frame.groupby("song")["user"].transform("size") >= 5]
users, items = (pandas.factorize(frame[column], sort=True)[1] for column in ("user", "song"))
print(json.dumps({{"users": len(users), "items": len(items), "pairs": len(frame)}}))
"""
CONTENDERS = {
    "spherec data prepare, cut": [*PREPARE, "--min-value", "5", "--min-per-user", "21", "--min-per-item", "5"],
    "spherec data prepare --format echonest (no cut)": [*PREPARE, "--format", "echonest"],
    "spherec data prepare --format echonest --partitions 16": [*PARTITIONS, "--format", "echonest"],
    "pandas: read_csv alone": ["-c", PANDAS + "print(json.dumps({{'pairs': len(frame)}}))"],
    "pandas: the same as the cut": ["-c", PANDAS + PANDAS_JOB],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=48_000_000)
    parser.add_argument("--folder", type=Path, help="folder of the generated file; default: a temporary folder")
    parser.add_argument("--output", type=Path, default=Path("results/bench/prepare.json"))
    parser.add_argument("--only", default="", metavar="TEXT", help="run the contenders whose name has this text")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        file = Path(folder) / "train_triplets.txt"
        generate(file, arguments.rows)
        record = {
            "command": " ".join(["python", *sys.argv]),
            "commit": _output("git", "describe", "--always", "--dirty"),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
            "seed": 0,
            "rows": arguments.rows,
            "file_gb": round(file.stat().st_size / 1e9, 2),
            "runs": [
                measure(name, [word.format(file=file, folder=folder) for word in command])
                for name, command in CONTENDERS.items()
                if arguments.only in name
            ],
        }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=2) + "\n")


def generate(path: Path, rows: int) -> None:
    """Write the file: activity of users is log-normal, popularity of songs falls as 1 / rank."""
    generator = rng.stream(0, "benchmark")
    users = pl.Series([f"{number:040x}" for number in generator.integers(0, 1 << 62, USERS)])
    songs = pl.Series([f"SO{number:016X}" for number in generator.integers(0, 1 << 62, SONGS)])
    activity = np.cumsum(generator.lognormal(0.0, 1.0, USERS))
    popularity = np.cumsum(1.0 / np.arange(1, SONGS + 1) ** 0.8)
    with path.open("wb") as file:
        for begin in range(0, rows, CHUNK):
            n = min(CHUNK, rows - begin)
            user = np.sort(np.searchsorted(activity, generator.random(n) * activity[-1]))
            song = np.searchsorted(popularity, generator.random(n) * popularity[-1])
            plays = generator.geometric(0.25, n)
            frame = pl.DataFrame({"user": users[user], "song": songs[song], "plays": plays})
            frame.write_csv(file, include_header=False, separator="\t")
            print(f"\rgenerated {begin + n:,} of {rows:,} rows", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def measure(name: str, command: list[str]) -> dict[str, object]:
    """Run a Python command that prints sizes as JSON; return its wall time and the peak memory that the kernel saw."""
    begin = time.perf_counter()
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{name} failed with exit code {os.waitstatus_to_exitcode(status)}")
    sizes = json.loads(printed)
    unit = 1 if sys.platform == "darwin" else 1024  # macOS reports bytes, Linux kilobytes
    result = {
        "contender": name,
        "seconds": round(time.perf_counter() - begin, 1),
        "peak_gb": round(usage.ru_maxrss * unit / 1e9, 2),
        **{key: sizes[key] for key in ("users", "items", "pairs") if key in sizes},
    }
    print(result, file=sys.stderr)
    return result


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
