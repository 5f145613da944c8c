"""Stage two of two-stage sampling: which candidates are open to a pair, and draws from their weights."""

import math

import numpy as np
from numpy.typing import NDArray

from spherec.kernels.compiled import compiled

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


@compiled()
def prepare(
    similarity: Floats,  # (B, C) s; becomes −s², s taken for the cap above it
    multiplicity: Floats,  # (C,)
    closed: Flags,  # (B, C) the users' own; becomes all that must not be drawn
    exponent: float,
    cap: float,
    heaviest: Floats,  # (B,) becomes −s² of the candidate with the largest weight
) -> None:
    """Close what is too far, unless nothing else is open: then all that is open counts alike."""
    # No branches in the loops over candidates: half of them are closed, and which ones cannot be foreseen.
    rows, count = similarity.shape
    for row in range(rows):
        s, shut = similarity[row], closed[row]
        nearest, farthest = np.float32(-1), np.float32(2)
        for c in range(count):
            shut[c] |= multiplicity[c] == 0
            far = np.float32(shut[c] | (s[c] < 0))
            nearest = max(nearest, (1 - far) * s[c] - far)
            farthest = min(farthest, (1 - far) * s[c] + 2 * far)
        none_near = nearest < 0
        best = min(nearest if exponent <= 0 else farthest, np.float32(cap))
        best = np.float32(0) if none_near else -best * best
        for c in range(count):
            shut[c] |= (s[c] < 0) & (not none_near)
            skip = np.float32(shut[c] | none_near)  # what is closed gets a weight that does no harm
            near = min(s[c], np.float32(cap))
            s[c] = skip * best - (1 - skip) * near * near
        heaviest[row] = best


@compiled()
def draw_distinct(
    weights: Floats,  # (B, C), changed
    closed: Flags,  # (B, C) whose weights count as 0
    uniform: Floats,  # (B, n)
    places: NDArray[np.int64],  # (B, n)
    valid: Flags,  # (B, n)
) -> None:
    """From each row, n places one after the other; `valid` where there was a weight above 0 left to draw."""
    rows, count = weights.shape
    block = int(math.sqrt(count)) + 1  # sums of blocks spare most of the way along a row
    sums = np.empty((count + block - 1) // block, np.float64)
    for row in range(rows):
        w = weights[row]
        for b in range(len(sums)):
            total = np.float32(0)
            for c in range(b * block, min((b + 1) * block, count)):
                w[c] *= np.float32(1 - closed[row, c])  # no branch: half of them are closed, and none can be foreseen
                total += w[c]
            sums[b] = total
        for n in range(uniform.shape[1]):
            whole = np.sum(sums)
            valid[row, n] = whole > 0
            places[row, n] = _place(w, sums, block, uniform[row, n] * whole)
            w[places[row, n]] = 0
            b = places[row, n] // block
            sums[b] = np.sum(w[b * block : (b + 1) * block])


@compiled()
def _place(weights: Floats, sums: NDArray[np.float64], block: int, wanted: float) -> int:
    """The first place at which the running sum of the weights is above `wanted`, which has a weight above 0."""
    b = 0
    while b < len(sums) - 1 and wanted >= sums[b]:
        wanted -= sums[b]
        b += 1
    for place in range(b * block, len(weights)):
        if weights[place] > 0:
            if wanted < weights[place]:
                return place
            wanted -= weights[place]
    for place in range(len(weights) - 1, -1, -1):  # rounding led past the end: the last that can be drawn
        if weights[place] > 0:
            return place
    return 0
