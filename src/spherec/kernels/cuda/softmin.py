"""Softmin over a shared pool and its gradient in all subspaces at once: three products, and three kernels around them.

`spherec.kernels.cpu.softmin` has the formula.

    _prepare    vectors in float16, and the similarity of users and their positives
    product     similarities s_ik of users and negatives
    _share      p_ik in float16, and of each pair the sum of its p_ik, and the loss
    products    Σ_k p_ik v_k of each pair, Σ_i w_i p_ik u_i and, with reach, Σ_i w_i p_ik λ_i of each negative
    _finish     the gradient of raw rows

The factors of products are rounded to float16: 11 bits, as many as TF32 has. The products themselves and everything
else are float32. No sum depends on the order in which programs run.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from spherec.geometry import SHORTEST

_SHORTEST = tl.constexpr(SHORTEST)
_ALIGNED = 8  # numbers; rows of float16 must begin at multiples of 16 bytes to be multiplied fast
_WIDEST = 4096  # negatives that a program looks at, at once
_UP = tl.constexpr(1024.0)  # by which p is scaled, so that small ones keep their bits in float16


def softmin_gradient(
    rows: Tensor, valid: Tensor, log_q: Tensor | None, weights: Tensor | None, dial: Tensor | None,
    *, temperature: float, gamma: float, n_items: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the gradient, shaped as the rows, and the sums of `protocol.FusedGradient` in parts (3, P B)."""
    (parts, count, width), (pairs, pool) = rows.shape, valid.shape
    dim = width - (dial is not None)
    padded, stride = (triton.cdiv(size, _ALIGNED) * _ALIGNED for size in (dim, pool))
    wider = padded + (0 if dial is None else _ALIGNED)  # with a column for w λ

    def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=rows.device)

    rows, gradient = rows.contiguous(), empty(*rows.shape)
    vectors, weighted = (empty(parts, *shape, dtype=torch.float16) for shape in ((count, padded), (pairs, wider)))
    near, pulls, of_pairs = empty(parts, pairs), empty(parts, pairs), empty(3, parts * pairs, dtype=torch.float64)
    reach = None if dial is None else empty(parts, pairs + pool)  # of positives and negatives
    shares = empty(parts, pairs, stride, dtype=torch.float16)
    users, negatives = vectors[:, :pairs], vectors[:, 2 * pairs :]
    sizes = pairs, pool, count
    by_row = {
        "WIDTH": width,
        "DIM": dim,
        "BLOCK": triton.next_power_of_2(wider),
        "num_warps": 1 if padded <= 256 else 4,
    }
    at_once = min(triton.next_power_of_2(pool), _WIDEST)

    _prepare[(count, parts)](
        rows, weights, dial, vectors, weighted, near, reach, *sizes, **by_row, PADDED=padded, WIDER=wider
    )
    similarity = multiply_halves(users, negatives.mT)  # (P, B, N)
    _share[(pairs, parts)](
        similarity, near, reach, valid.contiguous(), log_q, weights, dial, shares, pulls, of_pairs,
        float(temperature), float(gamma), math.log(n_items), pairs, pool, stride,
        BLOCK=at_once, num_warps=max(1, min(8, at_once // 256)),
    )  # fmt: skip
    pulled = multiply_halves(shares[..., :pool], negatives)  # (P, B, padded)
    pushed = multiply_halves(shares[..., :pool].mT, weighted)  # (P, N, wider)
    _finish[(count, parts)](
        rows, weights, dial, near, pulls, pulled, pushed, gradient, float(temperature), *sizes, **by_row,
        PADDED=padded, WIDER=wider,
    )  # fmt: skip
    return gradient, of_pairs


def multiply_halves(one: Tensor, other: Tensor) -> Tensor:
    """Return the products (P, m, n) of 16-bit matrices (P, m, d) and (P, d, n) in float32."""
    if one.is_cuda:
        return torch.bmm(one, other, out_dtype=torch.float32)
    return one.float() @ other.float()  # where Triton's interpreter does the rest


@triton.jit(do_not_specialize=["pairs", "pool", "count"])
def _prepare(
    rows, weights, dial, vectors, weighted, near, reach, pairs, pool, count,
    WIDTH: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr, PADDED: tl.constexpr, WIDER: tl.constexpr,
):  # fmt: skip
    """One program for each row."""
    at, part = tl.program_id(0), tl.program_id(1).to(tl.int64)
    d = tl.arange(0, BLOCK)
    vector, _ = _vector(rows, part * count + at, d, WIDTH, DIM)
    tl.store(vectors + (part * count + at) * PADDED + d, vector.to(tl.float16), mask=d < PADDED)
    if dial is not None:  # noqa: SIM102, Triton decides it before it compiles
        if at >= pairs:
            tl.store(reach + part * (count - pairs) + at - pairs, tl.load(rows + (part * count + at) * WIDTH + DIM))
    if at < pairs:
        positive, _ = _vector(rows, part * count + pairs + at, d, WIDTH, DIM)
        tl.store(near + part * pairs + at, tl.sum(vector * positive, 0))
        if dial is not None:
            vector = tl.where(d == PADDED, tl.load(dial + at), vector)
        if weights is not None:
            vector *= tl.load(weights + at)
        tl.store(weighted + (part * pairs + at) * WIDER + d, vector.to(tl.float16), mask=d < WIDER)


@triton.jit(do_not_specialize=["pairs", "pool"])
def _share(
    similarity, near, reach, valid, log_q, weights, dial, shares, pulls, of_pairs,
    temperature, gamma, log_items, pairs, pool, stride, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program for each pair."""
    pair, part, parts = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64), tl.num_programs(1)
    place = part * pairs + pair
    similarity += place * pool
    valid += pair * pool
    floor = tl.load(near + place) / temperature
    turn = 1.0
    if dial is not None:
        turn = tl.load(dial + pair)
        reach += part * (pairs + pool)
        floor += turn * tl.load(reach + pair)
        reach += pairs
    top, total, nearest, masked = 0.0, 0.0, float("-inf"), 0  # the 1 in the logarithm has the exponent 0
    for first in range(0, pool, BLOCK):
        k = first + tl.arange(0, BLOCK)
        x, bias = _exponents(similarity, valid, reach, log_q, dial, floor, turn, temperature, gamma, log_items, k, pool)
        highest = tl.maximum(top, tl.max(x, 0))
        e = tl.exp(x - highest)
        total = total * tl.exp(top - highest) + tl.sum(e, 0)
        top = highest
        nearest = tl.maximum(nearest, tl.max(x + bias, 0))
        masked += tl.sum(((x == float("-inf")) & (k < pool)).to(tl.int32), 0)
    of_one = 1 / (total + tl.exp(-top))
    for first in range(0, pool, BLOCK):
        k = first + tl.arange(0, BLOCK)
        x, _ = _exponents(similarity, valid, reach, log_q, dial, floor, turn, temperature, gamma, log_items, k, pool)
        p = tl.exp(x - top) * (of_one * _UP)
        tl.store(shares + place * stride + k, p.to(tl.float16), mask=k < pool)
    weight = 1.0
    if weights is not None:
        weight = tl.load(weights + pair)
    tl.store(pulls + place, total * of_one * weight / temperature)
    tl.store(of_pairs + place, (weight * (top - tl.log(of_one))).to(tl.float64) / parts)
    tl.store(of_pairs + parts * pairs + place, tl.where(nearest > 0, 1.0, 0.0).to(tl.float64) / parts)
    tl.store(of_pairs + 2 * parts * pairs + place, (1.0 * masked) / parts)


@triton.jit
def _exponents(similarity, valid, reach, log_q, dial, floor, turn, temperature, gamma, log_items, k, pool):
    """Return the exponents of negatives k, -inf where there is none, and what was taken off for their popularity."""
    inside = k < pool
    x = tl.load(similarity + k, mask=inside, other=0.0) / temperature - floor
    bias = tl.zeros_like(x)
    if dial is not None:
        x += turn * tl.load(reach + k, mask=inside, other=0.0)
    if log_q is not None:
        bias = turn * gamma * (tl.load(log_q + k, mask=inside, other=0.0) + log_items)
    is_open = inside & (tl.load(valid + k, mask=inside, other=0) != 0)
    return tl.where(is_open, x - bias, float("-inf")), bias


@triton.jit(do_not_specialize=["pairs", "pool", "count"])
def _finish(
    rows, weights, dial, near, pulls, pulled, pushed, gradient, temperature, pairs, pool, count,
    WIDTH: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr, PADDED: tl.constexpr, WIDER: tl.constexpr,
):  # fmt: skip
    """One program for each row; the part of its gradient along the row falls away."""
    at, part = tl.program_id(0), tl.program_id(1).to(tl.int64)
    place = part * count + at
    d = tl.arange(0, BLOCK)
    vector, scale = _vector(rows, place, d, WIDTH, DIM)
    if at < 2 * pairs:
        pair = part * pairs + at % pairs
        pull = tl.load(pulls + pair)
        partner, _ = _vector(rows, place + tl.where(at < pairs, pairs, -pairs), d, WIDTH, DIM)
        force = -pull * partner
        push = 0.0
        if at < pairs:
            weight = 1 / (_UP * temperature)
            if weights is not None:
                weight *= tl.load(weights + at)
            force += weight * tl.load(pulled + pair * PADDED + d, mask=d < DIM, other=0.0)
        else:
            if dial is not None:
                push = -pull * tl.load(dial + at - pairs) * temperature
        _store(gradient, place, force, push, vector, scale, d, dial, WIDTH, DIM)
    else:
        pushed += (part * pool + at - 2 * pairs) * WIDER
        force = tl.load(pushed + d, mask=d < DIM, other=0.0) / (_UP * temperature)
        push = 0.0
        if dial is not None:
            push = tl.load(pushed + PADDED) / _UP
        _store(gradient, place, force, push, vector, scale, d, dial, WIDTH, DIM)


@triton.jit
def _vector(rows, place, d, WIDTH: tl.constexpr, DIM: tl.constexpr):
    """Return the vector of a row, and the factor by which the row was scaled."""
    row = tl.load(rows + place * WIDTH + d, mask=d < DIM, other=0.0)
    scale = 1 / tl.maximum(tl.sqrt(tl.sum(row * row, 0)), _SHORTEST)
    return row * scale, scale


@triton.jit
def _store(gradient, place, force, push, vector, scale, d, dial, WIDTH: tl.constexpr, DIM: tl.constexpr):
    """Store the gradient of a raw row, given that of its vector and of its reach."""
    force = (force - tl.sum(force * vector, 0) * vector) * scale
    tl.store(gradient + place * WIDTH + d, force, mask=d < DIM)
    if dial is not None:
        tl.store(gradient + place * WIDTH + DIM, push)
