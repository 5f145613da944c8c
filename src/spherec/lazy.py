"""Values of an object that are computed when they are first asked for."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property
from typing import Any, TypeVar

_Value = TypeVar("_Value")


class Lazy(cached_property[_Value]):
    """A `cached_property` without the lock of Python 3.11, which a fork could leave closed forever."""

    def __init__(self, compute: Callable[[Any], _Value]) -> None:
        super().__init__(compute)
        self.lock = nullcontext()
