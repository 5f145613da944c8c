"""The decorator that compiles kernels: once for all processes if the result can be cached, else once in each."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from numba import njit

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
