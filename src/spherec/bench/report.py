"""Results of a benchmark: plain data, written as JSON or shown as tables."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from spherec.bench.machine import Machine
from spherec.bench.timing import Speed

Unit = Literal["triplets", "users", "rows"]


@dataclass(frozen=True)
class SpeedPair:
    """Speed of spherec and of the baseline."""

    unit: Unit
    ours: Speed
    baseline: Speed | None
    "None if the baseline cannot run here."

    @property
    def ratio(self) -> float | None:
        """Units per second of spherec divided by those of the baseline."""
        return None if self.baseline is None else self.ours.per_second / self.baseline.per_second

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "spherec": self._speed_to_dict(self.ours),
            "baseline": None if self.baseline is None else self._speed_to_dict(self.baseline),
            "ratio": self.ratio,
        }

    def _speed_to_dict(self, speed: Speed) -> dict[str, Any]:
        """Return one speed, named by the unit."""
        return {
            f"{self.unit}_per_second": speed.per_second,
            "ms_per_step": speed.ms_per_step,
            "fastest_ms_per_step": speed.fastest_ms_per_step,
            "steps_measured": speed.steps,
        }


@dataclass(frozen=True)
class StepResult:
    """Speed of training steps with one sampler, sampling included."""

    sampler: str
    negatives: int
    batch: int
    dim: int
    speed: SpeedPair
    peak_mb: float | None
    "Peak memory of spherec for tables, moments, sampler, pairs and a step; None if the system does not report it."
    baseline_peak_mb: float | None
    floor_mb: float
    "Bytes that any implementation of a step must move."
    floor_gflop: float
    floor_ms: float
    "Least time of a step at the measured rates of the machine."

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        speeds = self.speed.to_dict()
        speeds["spherec"]["peak_mb"] = self.peak_mb
        if speeds["baseline"] is not None:
            speeds["baseline"]["peak_mb"] = self.baseline_peak_mb
        names = ("sampler", "negatives", "batch", "dim", "floor_mb", "floor_gflop", "floor_ms")
        return {name: getattr(self, name) for name in names} | speeds


@dataclass(frozen=True)
class RankingResult:
    """Speed of exact lists over all items."""

    k: int
    users: int
    "Users ranked in one call."
    speed: SpeedPair


@dataclass(frozen=True)
class ReadingResult:
    """Speed of reading a CSV as interactions."""

    rows: int
    speed: SpeedPair
    skipped: str | None
    "Reason for a missing baseline."


@dataclass(frozen=True)
class LoadingResult:
    """Start-up time in seconds; imports run in a fresh process and include the start of Python."""

    python: float
    import_torch: float
    import_spherec: float
    import_training: float
    "`import spherec.training`, which brings torch and numba."
    data: float | None
    "Loading the data set from its file; None if it was not timed."


@dataclass(frozen=True)
class Report:
    """Results of one run of the benchmark."""

    environment: dict[str, Any]
    "Versions, commit, device, threads, cores, date."
    quick: bool
    data: dict[str, int]
    "Number of users, items and pairs."
    machine: Machine
    steps: tuple[StepResult, ...]
    ranking: RankingResult
    reading: ReadingResult | str
    "Result, or the reason why reading was skipped."
    loading: LoadingResult

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        ranking = {"k": self.ranking.k, "users": self.ranking.users} | self.ranking.speed.to_dict()
        reading: dict[str, Any] = {"skipped": self.reading}
        if not isinstance(self.reading, str):
            reading = {"rows": self.reading.rows, "skipped": self.reading.skipped} | self.reading.speed.to_dict()
        return {
            "benchmark": "spherec bench",
            "environment": self.environment,
            "quick": self.quick,
            "data": self.data,
            "machine": asdict(self.machine),
            "steps": [step.to_dict() for step in self.steps],
            "ranking": ranking,
            "reading": reading,
            "loading": asdict(self.loading),
        }
