"""The type of the factors of large products: bfloat16 where the processor multiplies such numbers faster than float32.

bfloat16 has 8 bits where float32 has 24. Processors with the instructions for it add its products up in float32, and do
twice as many of them at once (AMD since Zen 4, Intel's Xeon since Cooper Lake; with AMX, many more).
"""

from functools import cache

import torch
from llvmlite.binding import get_host_cpu_features

_LARGE = 1 << 24  # multiplications; in smaller products, rounding the factors takes as long as it saves


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
