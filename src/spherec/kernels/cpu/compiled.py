"""Compilation of kernels, and the type of the factors of large products: all that depends on the processor.

bfloat16 has 8 bits where float32 has 24. Processors with the instructions for it add its products up in float32, and do
twice as many of them at once (AMD since Zen 4, Intel's Xeon since Cooper Lake; with AMX, many more).
"""

from collections.abc import Callable
from functools import cache
from typing import Any, ParamSpec, TypeVar

import torch
from llvmlite.binding import get_host_cpu_features
from numba import njit

_LARGE = 1 << 24  # multiplications; in smaller products, rounding the factors takes as long as it saves
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def compiled(**options: Any) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """Return a decorator with options of numba. The function releases Python's lock while it runs."""

    def decorate(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        try:
            kernel: Callable[_Arguments, _Result] = njit(cache=True, nogil=True, **options)(function)
        except RuntimeError:  # neither the package's folder nor the user's can be written
            kernel = njit(nogil=True, **options)(function)
        return kernel

    return decorate


def choose_factors(multiplications: int) -> torch.dtype:
    """Return the type to which the factors of a product with so many multiplications are rounded."""
    return torch.bfloat16 if multiplications >= _LARGE and _has_bfloat16() else torch.float32


@cache
def _has_bfloat16() -> bool:
    """Tell whether the processor has the instructions, and torch the library that uses them."""
    try:
        has_instructions = get_host_cpu_features().get("avx512bf16", False)
    except RuntimeError:  # LLVM does not know this kind of system
        return False
    return bool(has_instructions and torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
