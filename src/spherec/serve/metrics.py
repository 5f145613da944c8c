"""Counts of the server for Prometheus. With several workers, each of them reports the sum over all."""

import os
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Variable of the environment that names the folder where workers keep their counts; alone, a process needs none."""

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)  # bounds of the histogram
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)  # lists ranked together


class Metrics:
    """Counters, histograms and gauges of this process. Routes and statuses are counted as they come."""

    def __init__(self) -> None:
        all_of: Any = {"registry": CollectorRegistry()}
        living: Any = {**all_of, "multiprocess_mode": "livesum"}
        self._registry = all_of["registry"]
        self.requests = Counter("spherec_requests", "Requests by route and status.", ["route", "status"], **all_of)
        self.seconds = Histogram(
            "spherec_request_seconds", "Time to answer a request.", ["route"], buckets=_SECONDS, **all_of
        )
        self.batches = Histogram("spherec_batch_lists", "Lists that were ranked together.", buckets=_SIZES, **all_of)
        self.swaps = Counter("spherec_model_swaps", "New models put in place.", **all_of)
        self.failures = Counter("spherec_model_failures", "New models that could not be loaded.", **all_of)
        self.lists = Counter("spherec_lists", "Lists that users were shown, by a server that stores events.", **all_of)
        self.events = Counter("spherec_events", "Events that were stored.", **all_of)
        self.clicks = Counter("spherec_events_on_shown_items", "The first events on items that were shown.", **all_of)
        self.waiting = Gauge("spherec_waiting_lists", "Lists that wait to be ranked.", **living)
        self.model = Gauge("spherec_model_info", "Processes that answer from a model.", ["checksum"], **living)

    def render(self) -> bytes:
        """Return the sums over all processes in the text format of Prometheus."""
        if SHARED_FOLDER not in os.environ:
            return generate_latest(self._registry)
        everybody = CollectorRegistry()
        MultiProcessCollector(everybody)  # type: ignore[no-untyped-call]
        return generate_latest(everybody)


def forget_dead_workers() -> None:
    """Remove what workers that have died had waiting; what they have counted stays."""
    folder = Path(os.environ.get(SHARED_FOLDER, os.devnull))
    for process in {int(path.stem.rpartition("_")[2]) for path in folder.glob("gauge_live*.db")}:
        if not Path(f"/proc/{process}").exists():
            mark_process_dead(process)  # type: ignore[no-untyped-call]
