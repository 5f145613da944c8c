"""Load on `spherec serve` and on a naive service around `model.recommend`, on one machine, over loopback.

    python benchmarks/serve_load.py --docs                          all of it, about 6 minutes; into results and docs
    python benchmarks/serve_load.py --seconds 3 --requests 2000     a quick look
    python benchmarks/serve_load.py --model books.spherec           another model than the one that is trained here

Every service runs in a process of its own, one after the other. The clients are one process more, with as many open
connections as there are clients; each sends a request as soon as it has the answer to the one before. So the cores are
shared by the service and its clients, as the figures say.

The naive service is what one writes first: FastAPI, a plain `def` that calls `model.recommend(user, k)` and returns the
records, uvicorn as it comes. It is measured with torch's default threads and with one, and the faster one counts.
"""

import argparse
import asyncio
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np

import spherec

ROOT = Path(__file__).resolve().parents[1]
CLIENTS = (1, 16, 64)
DOCS = ROOT / "results/serve/load.md"
K = 10
OVERLOAD_CLIENTS, OVERLOAD_QUEUE = 256, 64


@dataclass
class Tally:
    """What clients have seen."""

    seconds: list[float] = field(default_factory=list)
    "Times of answered requests."
    statuses: dict[int, int] = field(default_factory=dict)
    "Number of answers, by status."
    refused_seconds: list[float] = field(default_factory=list)
    "Times of requests that were turned away."
    wall: float = 0.0
    "Time of the whole measurement."

    def summary(self) -> dict[str, Any]:
        """Return requests per second and percentiles."""
        times = sorted(self.seconds) or [float("nan")]
        return {
            "requests": len(self.seconds),
            "per_second": len(self.seconds) / self.wall,
            **{f"p{p}_ms": 1000 * float(np.percentile(times, p)) for p in (50, 95, 99)},
            "slowest_ms": 1000 * times[-1],
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
        }


class Client(asyncio.Protocol):
    """One connection: the next request goes out when the last answer is complete."""

    def __init__(self, requests: Iterator[bytes], tally: Tally) -> None:
        self._requests, self._tally = requests, tally
        self._parts: list[bytes] = []
        self._size, self._wanted, self._begin = 0, -1, 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Send the first request."""
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self._transport.close()
            return
        self._parts, self._size, self._wanted = [], 0, -1
        self._begin = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Take a part of an answer; when it is complete, send the next request."""
        self._parts.append(data)
        self._size += len(data)
        if self._wanted < 0:
            head = b"".join(self._parts)
            end = head.find(b"\r\n\r\n")
            if end < 0:
                return
            low = head[:end].lower()
            at = low.index(b"content-length:") + 15
            self._wanted = end + 4 + int(low[at:].split(b"\r\n", 1)[0])
            self._status = int(head[9:12])
        if self._size >= self._wanted:
            times = self._tally.seconds if self._status == 200 else self._tally.refused_seconds
            times.append(time.perf_counter() - self._begin)
            self._tally.statuses[self._status] = self._tally.statuses.get(self._status, 0) + 1
            self._ask()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        """Be done."""
        if not self.done.done():
            self.done.set_result(None)


async def ask(address: str, paths: Sequence[str], clients: int, *, seconds: float, most: int) -> Tally:
    """Ask with so many clients until the time is over or the requests are used up."""
    place, tally, end = urlsplit(address), Tally(), time.perf_counter() + seconds
    head = f"HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n"
    requests = [f"GET {path} {head}".encode() for path in paths]

    def choose() -> Iterator[bytes]:
        for number in range(most):
            if time.perf_counter() > end:
                return
            yield requests[number % len(requests)]

    shared = choose()
    loop = asyncio.get_running_loop()
    begin = time.perf_counter()
    made = [
        (await loop.create_connection(lambda: Client(shared, tally), place.hostname or "", place.port or 80))[1]
        for _ in range(clients)
    ]
    await asyncio.gather(*(client.done for client in made))
    tally.wall = time.perf_counter() - begin
    return tally


@contextmanager
def service(
    *command: str, threads: int | None = None, source: Path = ROOT / "src", folder: str | None = None
) -> Iterator[tuple[str, int]]:
    """Run a service of a source tree in a folder; yield its address and process id."""
    environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
    environment.pop("OMP_NUM_THREADS", None)
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if "http://" in line:
                break
        address = "http://" + line.split("http://")[1].split()[0].rstrip("/")
        wait_until_ready(address)
        yield address, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def wait_until_ready(address: str) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with suppress(OSError):
            tally = asyncio.run(ask(address, ["/openapi.json"], 1, seconds=10, most=1))
            if tally.statuses.get(200):
                return
        time.sleep(0.05)
    raise SystemExit(f"{address} does not answer")


def anonymous_memory(process: int) -> int:
    """Return the resident memory of a process in bytes, without files that are mapped."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def serve_naively(model_path: str) -> None:
    """Run the service that one writes first."""
    import uvicorn
    from fastapi import FastAPI

    app, model = FastAPI(), spherec.load(model_path)

    @app.get("/recommend/{user}")
    def recommend(user: str, k: int = 10) -> list[dict[str, Any]]:
        return model.recommend(user, k).as_dicts()

    uvicorn.run(app, port=0, access_log=False)


def train(path: Path) -> None:
    """Train a model of Book-Crossing, for a few epochs: times do not depend on how good it is."""
    print(f"training {path}")
    spherec.CML(epochs=5, device="cpu").fit(spherec.datasets.book_crossing(), validation=0, progress=False).save(path)


def draw_table(record: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    lines = ["| | clients | requests/s | p50 ms | p95 ms | p99 ms |", "|---|--:|--:|--:|--:|--:|"]
    for name, by_clients in record["services"].items():
        for clients, figures in by_clients.items():
            times = " | ".join(f"{figures[f'p{p}_ms']:.0f}" for p in (50, 95, 99))
            lines.append(f"| {name} | {clients} | {figures['per_second']:.0f} | {times} |")
    over, soak = record["overload"], record["soak"]
    refused = sum(count for status, count in over["statuses"].items() if status == "503")
    first, last = (soak["anonymous_bytes"][place] / 1e6 for place in (0, -1))
    return "\n".join(
        [
            f"{record['cores']} cores; load before the run {record['load_before']:.1f}.",
            "",
            *lines,
            "",
            f"- *Exact, 64 clients*: {record['times_naive_at_64']:.1f} times the requests of the naive service.",
            f"- *Overload*: {over['clients']} clients that ask again at once, a queue of {over['queue']}: "
            f"{over['per_second']:.0f} lists a second, p99 {over['p99_ms']:.0f} ms, the slowest "
            f"{over['slowest_ms']:.0f} ms; "
            f"{refused:,} requests were turned away with 503, p99 {over['refused_p99_ms']:.0f} ms.",
            f"- *Memory*: {first:.0f} MB after {soak['requests'] // 10:,} requests, {last:.0f} MB after "
            f"{soak['requests']:,} (without the files that are mapped).",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model", type=Path, default=ROOT / "build/books.spherec", help="model file, trained if it is not there"
    )
    parser.add_argument("--seconds", type=float, default=12, help="longest time of one measurement")
    parser.add_argument("--requests", type=int, default=20_000, help="most requests of one measurement")
    parser.add_argument("--soak", type=int, default=100_000, help="requests over which memory is watched")
    parser.add_argument("--output", type=Path, default=ROOT / "results/serve/load.json", help="record to write")
    parser.add_argument("--docs", action="store_true", help="also write the figures into results/serve/load.md")
    parser.add_argument("--naive", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.naive:
        serve_naively(str(arguments.model))
        return
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    if not arguments.model.exists():
        arguments.model.parent.mkdir(parents=True, exist_ok=True)
        train(arguments.model)
    model = spherec.load(arguments.model, mmap=True)
    users = np.random.default_rng(0).permutation(model.data.n_users)[:2000]
    paths = [f"/recommend/{quote(str(model.data.user_ids[int(user)]), safe='')}?k={K}" for user in users]
    index = arguments.model.with_suffix(".usearch")
    if not index.exists():
        print(f"building {index}")
        model.build_index(index)
    serve = (sys.executable, "-m", "spherec", "serve", str(arguments.model), "--port", "0", "--no-log-requests")
    naive = (sys.executable, str(Path(__file__)), "--naive", "--model", str(arguments.model))
    services: dict[str, tuple[tuple[str, ...], int | None]] = {
        "naive, torch's threads": (naive, None),
        "naive, 1 thread": (naive, 1),
        "spherec serve, exact": (serve, None),
        "spherec serve, index": ((*serve, "--index"), None),
    }
    record: dict[str, Any] = {
        "cores": os.cpu_count(),
        "machine": platform.processor() or platform.machine(),
        "load_before": os.getloadavg()[0],
        "items": model.data.n_items,
        "dim": model.vectors.dim,
        "k": K,
        "services": {},
    }
    for name, (command, threads) in services.items():
        with service(*command, threads=threads) as (address, _):
            asyncio.run(ask(address, paths, 4, seconds=2, most=200))  # warm
            for clients in CLIENTS:
                tally = asyncio.run(ask(address, paths, clients, seconds=arguments.seconds, most=arguments.requests))
                summary = tally.summary()
                record["services"].setdefault(name, {})[str(clients)] = summary
                print(
                    f"{name:24} {clients:3} clients: {summary['per_second']:7.1f}/s   p50 {summary['p50_ms']:7.1f}   "
                    f"p95 {summary['p95_ms']:7.1f}   p99 {summary['p99_ms']:7.1f} ms"
                )
    best_naive = max(record["services"][name]["64"]["per_second"] for name in list(services)[:2])
    record["times_naive_at_64"] = record["services"]["spherec serve, exact"]["64"]["per_second"] / best_naive
    print(f"exact, 64 clients: {record['times_naive_at_64']:.1f} times the naive service")
    with service(*serve, "--queue", str(OVERLOAD_QUEUE), "--max-lists", "1") as (address, _):
        tally = asyncio.run(ask(address, paths, OVERLOAD_CLIENTS, seconds=arguments.seconds, most=10**9))
        record["overload"] = tally.summary() | {
            "clients": OVERLOAD_CLIENTS,
            "queue": OVERLOAD_QUEUE,
            "refused_p99_ms": 1000 * float(np.percentile(tally.refused_seconds or [0], 99)),
        }
        print("overload:", json.dumps(record["overload"]))
    with service(*serve) as (address, process):
        memory = []
        for _ in range(10):
            asyncio.run(ask(address, paths, 64, seconds=600, most=arguments.soak // 10))
            memory.append(anonymous_memory(process))
        record["soak"] = {"requests": arguments.soak // 10 * 10, "anonymous_bytes": memory}
        growth = memory[-1] - memory[0]
        print(
            f"memory after {arguments.soak // 10:,} … {arguments.soak:,} requests: "
            f"{', '.join(f'{size / 1e6:.1f}' for size in memory)} MB; growth {growth / 1e6:+.1f} MB"
        )
        record["soak"]["median_bytes"] = statistics.median(memory)
    record["load_after"] = os.getloadavg()[0]
    arguments.output.write_text(json.dumps(record, indent=1) + "\n")
    print(f"written to {arguments.output}")
    if arguments.docs:
        begin, end = "<!-- load -->\n", "<!-- end of load -->"
        head, _, rest = DOCS.read_text().partition(begin)
        DOCS.write_text(f"{head}{begin}{draw_table(record)}\n{end}{rest.partition(end)[2]}")
        print(f"written to {DOCS}")


if __name__ == "__main__":
    main()
