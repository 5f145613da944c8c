"""What a benchmark leaves: plain data, to be written as JSON or shown as tables."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from spherec.bench.interleaved import Speed
from spherec.bench.machine import Machine

Unit = Literal["triplets", "users", "rows"]


@dataclass(frozen=True)
class Comparison:
    """Ours beside the baseline."""

    unit: Unit
    ours: Speed
    baseline: Speed | None
    "None where it cannot run here."

    @property
    def ratio(self) -> float | None:
        """How many times as many units a second are done by ours."""
        return None if self.baseline is None else self.ours.per_second / self.baseline.per_second

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "spherec": self.speed_as_json(self.ours),
            "baseline": None if self.baseline is None else self.speed_as_json(self.baseline),
            "ratio": self.ratio,
        }

    def speed_as_json(self, speed: Speed) -> dict[str, Any]:
        """One of both, under the name of the unit."""
        return {
            f"{self.unit}_per_second": speed.per_second,
            "ms_per_step": speed.ms_per_step,
            "fastest_ms_per_step": speed.fastest_ms_per_step,
            "steps_measured": speed.steps,
        }


@dataclass(frozen=True)
class StepResult:
    """Training steps with one sampler, sampling included."""

    sampler: str
    negatives: int
    batch: int
    dim: int
    speed: Comparison
    peak_mb: float | None
    "Memory that ours takes: tables, moments, sampler, pairs, a step; None where the system does not tell."
    baseline_peak_mb: float | None
    floor_mb: float
    "What a step must move, whoever writes it."
    floor_gflop: float
    floor_ms: float
    "How long that takes at the machine's measured speed."

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        told = self.speed.as_json()
        told["spherec"]["peak_mb"] = self.peak_mb
        if told["baseline"] is not None:
            told["baseline"]["peak_mb"] = self.baseline_peak_mb
        names = ("sampler", "negatives", "batch", "dim", "floor_mb", "floor_gflop", "floor_ms")
        return {name: getattr(self, name) for name in names} | told


@dataclass(frozen=True)
class RankingResult:
    """Exact lists over all items."""

    k: int
    users: int
    "For whom ours made lists in one go."
    speed: Comparison


@dataclass(frozen=True)
class ReadingResult:
    """A table of text as interactions."""

    rows: int
    speed: Comparison
    skipped: str | None
    "Why there is no baseline."


@dataclass(frozen=True)
class LoadingResult:
    """Seconds until one can begin; imports in a fresh process, the start of Python included."""

    python: float
    import_torch: float
    import_spherec: float
    import_training: float
    "`import spherec.training`, which brings torch and numba."
    data: float | None
    "Loading the data set from its file; None where it was given."


@dataclass(frozen=True)
class Record:
    """One run of the benchmark."""

    environment: dict[str, Any]
    "Versions, commit, device, threads, cores, date."
    quick: bool
    data: dict[str, int]
    "Users, items, pairs."
    machine: Machine
    steps: tuple[StepResult, ...]
    ranking: RankingResult
    reading: ReadingResult | str
    "Why it was skipped, where it was."
    loading: LoadingResult

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        ranking = {"k": self.ranking.k, "users": self.ranking.users} | self.ranking.speed.as_json()
        reading: dict[str, Any] = {"skipped": self.reading}
        if not isinstance(self.reading, str):
            reading = {"rows": self.reading.rows, "skipped": self.reading.skipped} | self.reading.speed.as_json()
        return {
            "benchmark": "spherec bench",
            "environment": self.environment,
            "quick": self.quick,
            "data": self.data,
            "machine": asdict(self.machine),
            "steps": [one.as_json() for one in self.steps],
            "ranking": ranking,
            "reading": reading,
            "loading": asdict(self.loading),
        }
