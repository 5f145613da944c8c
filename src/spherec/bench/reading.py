"""A CSV as interactions, beside pandas: read_csv, factorize, a sparse matrix."""

import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch

from spherec import rng
from spherec.bench.interleaved import Done, Work, interleaved
from spherec.bench.record import Comparison, ReadingResult
from spherec.errors import MissingPackageError

_USERS, _ITEMS = 20_000, 50_000


def measure_reading(*, rows: int, chunks: int, seconds: float) -> ReadingResult | str:
    """Of a generated file with so many rows; why not, where polars is absent."""
    try:
        from spherec.data.readers import read
    except MissingPackageError as error:
        return str(error)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.csv"
        write_events(path, rows)

        def ours(calls: int) -> Done:
            for _ in range(calls):
                read(path, user="user", item="item", duplicates="sum")
            return Done(calls, calls * rows)

        plain = _pandas(path, rows)
        contenders = [ours] if isinstance(plain, str) else [ours, plain]
        for contender in contenders:
            contender(1)
        speeds = interleaved(contenders, chunks, seconds, torch.device("cpu"))
    ratio = Comparison("rows", speeds[0], speeds[1] if len(speeds) > 1 else None)
    return ReadingResult(rows, ratio, plain if isinstance(plain, str) else None)


def write_events(path: Path, rows: int) -> None:
    """A table with the columns user and item, both skewed, in no order; some rows come twice."""
    random = rng.stream(0, "events")
    users = (_USERS * random.random(rows) ** 1.5).astype(np.int64).tolist()
    items = (_ITEMS * random.random(rows) ** 2).astype(np.int64).tolist()
    lines = [f"reader-{user},{item:010d}" for user, item in zip(users, items, strict=True)]
    path.write_text("\n".join(["user,item", *lines, ""]))


def _pandas(path: Path, rows: int) -> Work | str:
    """The obvious way, or why it cannot go."""
    try:
        import pandas as pd  # type: ignore[import-untyped]
    except ImportError:
        return "the baseline needs pandas: pip install pandas"

    def plain(calls: int) -> Done:
        for _ in range(calls):
            frame = pd.read_csv(path, dtype=str)
            (users, _), (items, _) = (pd.factorize(frame[name], sort=True) for name in ("user", "item"))
            matrix = sp.csr_array((np.ones(len(users), np.float32), (users, items)))
            matrix.sum_duplicates()
        return Done(calls, calls * rows)

    return plain
