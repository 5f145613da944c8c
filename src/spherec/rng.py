"""Random generators: one seed, many named streams. No other file makes generators."""

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Union

import numpy as np

from spherec.errors import ArgumentError, quote

if TYPE_CHECKING:
    import torch  # imported where it is used: it takes a second, and preparing data does without


_LEAST = 1e-38  # a uniform draw of 0 has no logarithm


def stream(seed: int, name: str, *indices: int) -> np.random.Generator:
    """Return the generator called `name` under `seed`.

    Streams with different names or indices are independent, so drawing more from one never shifts another:
    `stream(7, "split")`, `stream(7, "negatives", 3)`.
    """
    for name_of, number in (("seed", seed), *(("index", index) for index in indices)):
        if not isinstance(number, int | np.integer) or number < 0:
            raise ArgumentError(f"{name_of} must be a whole number >= 0, got {quote(number)}")
    # The number of indices is part of the key, because NumPy treats (7,) and (7, 0) as the same.
    return np.random.default_rng([seed, zlib.crc32(name.encode()), len(indices), *indices])


def legacy(seed: int) -> np.random.RandomState:
    """Return NumPy's old generator, by which published splits were drawn."""
    return np.random.RandomState(seed)


def torch_stream(seed: int, name: str, *indices: int, device: Union["torch.device", str] = "cpu") -> "torch.Generator":
    """Return the same stream as a torch generator on `device`. CPU and CUDA draw different numbers from one seed."""
    import torch

    generator = torch.Generator(device)
    generator.manual_seed(int(stream(seed, name, *indices).integers(1 << 63)))
    return generator


def permutation(n: int, generator: "torch.Generator") -> "torch.Tensor":
    """Return 0 … n - 1 in random order (n,), on the generator's device."""
    import torch

    return torch.randperm(n, generator=generator, device=generator.device)


def draw_rows(draw: Callable[[int], "torch.Tensor"], rows: int, generator: "torch.Generator") -> "torch.Tensor":
    """Return what `draw(rows)` draws from the generator, a row for each pair of a batch.

    A generator with a `draw_rows` of its own is asked for some pairs of a larger batch: it draws for all of them, and
    returns the rows of these.
    """
    return generator.draw_rows(draw, rows) if draws_for_others(generator) else draw(rows)  # type: ignore[attr-defined]


def draw_numbers(shape: tuple[int, ...], generator: "torch.Generator") -> "torch.Tensor":
    """Return random whole numbers from 0 to 2^63 − 1, on the generator's device."""
    import torch

    return torch.empty(shape, dtype=torch.int64, device=generator.device).random_(generator=generator)


def draw_numbers_of_pairs(pairs: int, n: int, generator: "torch.Generator") -> "torch.Tensor":
    """Return the same (B, n) for the pairs of a batch."""
    return draw_rows(lambda rows: draw_numbers((rows, n), generator), pairs, generator)


def draws_for_others(generator: "torch.Generator") -> bool:
    """Tell whether a generator draws for more pairs than it is asked for, see `draw_rows`."""
    return hasattr(generator, "draw_rows")


def draw_without_replacement(
    log_weights: "torch.Tensor", n: int, generator: "torch.Generator"
) -> tuple["torch.Tensor", "torch.Tensor"]:
    """Draw n places (…, n) from each row of log weights (…, C), one after the other without replacement.

    They are the n largest of log w + Gumbel noise. With them (…, n): whether there was a weight above 0 left to draw.
    """
    import torch

    def draw(rows: int) -> torch.Tensor:
        return log_weights.new_empty(rows, *log_weights.shape[1:]).uniform_(generator=generator)

    count = len(log_weights)
    noise = (draw_rows(draw, count, generator) if log_weights.dim() > 1 else draw(count)).clamp_min_(_LEAST)
    noise = noise.log_().neg_().log_()  # minus a Gumbel variable
    keys, places = (log_weights - noise).topk(n, dim=-1)
    return places, keys > float("-inf")
