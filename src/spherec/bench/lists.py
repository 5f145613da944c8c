"""Exact lists over all items: for all users at once by blocks, beside a loop over users."""

import numpy as np
import torch

from spherec.bench.baseline import plain_top
from spherec.bench.interleaved import Done, interleaved
from spherec.bench.record import Comparison, RankingResult
from spherec.data.interactions import Interactions
from spherec.geometry import DenseVectors
from spherec.ranking import ExactRanker

_BASELINE_USERS = 20  # a call


def measure_lists(
    data: Interactions, vectors: DenseVectors, *, k: int, users: int, chunks: int, seconds: float, device: torch.device
) -> RankingResult:
    """The k nearest items that users do not have, for the first `users` of them."""
    k, ranker = min(k, data.n_items), ExactRanker(vectors)
    everyone = np.arange(min(users, data.n_users))
    some = everyone[:: max(len(everyone) // _BASELINE_USERS, 1)][:_BASELINE_USERS]

    def ours(calls: int) -> Done:
        for _ in range(calls):
            ranker.top(everyone, k, without=data)
        return Done(calls, calls * len(everyone))

    def plain(calls: int) -> Done:
        for _ in range(calls):
            plain_top(vectors, some, k, data)
        return Done(calls, calls * len(some))

    ranker.top(some, k, without=data)  # sets up what is set up once
    plain(1)
    speeds = interleaved([ours, plain], chunks, seconds, device)
    return RankingResult(k, len(everyone), Comparison("users", *speeds))
