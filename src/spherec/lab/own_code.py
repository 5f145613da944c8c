"""Hash of code of the user's own, so that records of an earlier version are not taken for the present one."""

import hashlib
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch

_METHODS = (FunctionType, staticmethod, classmethod, property)


def hash_own_code(*parts: object) -> str | None:
    """Return a hash of the code and the settings of objects, functions or classes; None if all are of spherec itself.

    The hash covers functions as they are compiled, so comments do not count, but the version of Python does. It covers
    base classes, and what the code names in its own package: functions, classes, plain values and arrays.
    """
    own = [part for part in (getattr(part, "formula", part) for part in parts) if _package_of(part) != "spherec"]
    if not own:
        return None
    reader = _Reader({_package_of(part) for part in own})
    digest = hashlib.blake2b(digest_size=8)
    for part in own:
        for content in reader.read(part):
            digest.update(content + b"\0")
    return digest.hexdigest()


def _package_of(part: object) -> str:
    """Return the top-level package of a function, of a class, or of an object's class."""
    inner = _unwrap(part)
    module = getattr(inner if isinstance(inner, type | FunctionType) else type(inner), "__module__", "") or ""
    return module.partition(".")[0]


def _unwrap(part: object) -> object:
    """Return the function inside a method or a decorator that keeps it, such as those of functools and numba."""
    for name in ("__func__", "fget", "__wrapped__", "py_func"):
        inner = None if isinstance(part, type | FunctionType) else getattr(part, name, None)
        if isinstance(inner, FunctionType):
            return inner
    return part


class _Reader:
    """Reads code and values; looks inside functions, classes and objects of some packages only."""

    def __init__(self, packages: set[str]) -> None:
        self._packages = packages
        self._seen: set[int] = set()

    def read(self, value: object) -> Iterator[bytes]:
        """Yield the content of a value."""
        if isinstance(value, torch.Tensor):
            value = value.detach().cpu().numpy()
        value = _unwrap(value)
        yield type(value).__qualname__.encode()
        if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
            yield repr(value).encode()
        elif isinstance(value, np.ndarray):
            yield f"{value.dtype} {value.shape}".encode()
            yield repr(value.tolist()).encode() if value.dtype == object else np.ascontiguousarray(value).tobytes()
        elif isinstance(value, tuple):
            for one in value:
                yield from self.read(one)
        elif isinstance(value, set | frozenset):
            yield repr(sorted(map(repr, value))).encode()
        elif isinstance(value, CodeType):
            yield value.co_code
            yield repr(value.co_names + value.co_varnames).encode()
            yield from self.read(value.co_consts)
        elif id(value) not in self._seen:
            self._seen.add(id(value))
            yield from self._read_once(value)

    def _read_once(self, value: object) -> Iterator[bytes]:
        if isinstance(value, list):
            yield from self.read(tuple(value))
        elif isinstance(value, dict):
            yield from self._read_items(value)
        elif _package_of(value) not in self._packages:
            yield getattr(value, "__qualname__", "").encode()
        elif isinstance(value, FunctionType):
            yield from self._read_function(value)
        elif isinstance(value, type):
            for base in value.__mro__:
                yield base.__qualname__.encode()
                if _package_of(base) in self._packages:
                    yield from self._read_items(_written(base))
        elif not isinstance(value, MethodType):
            yield from self.read(type(value))
            yield from self._read_items(getattr(value, "__dict__", {}))

    def _read_items(self, items: Mapping[Any, object]) -> Iterator[bytes]:
        for name in sorted(items, key=repr):
            yield repr(name).encode()
            yield from self.read(items[name])

    def _read_function(self, function: FunctionType) -> Iterator[bytes]:
        """Yield the code, its defaults, and what it names around it."""
        yield from self.read((function.__code__, function.__defaults__, function.__kwdefaults__))
        for cell in function.__closure__ or ():
            try:
                yield from self.read(cell.cell_contents)
            except ValueError:  # not filled yet
                yield b"empty"
        named = _names_in(function.__code__) & function.__globals__.keys()
        yield from self._read_items({name: function.__globals__[name] for name in named})


def _written(kind: type) -> dict[str, object]:
    """Return the attributes of a class, without those that Python adds."""
    return {
        name: value
        for name, value in vars(kind).items()
        if isinstance(value, _METHODS) or not (name.startswith("__") or name == "_abc_impl")
    }


def _names_in(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names_in, inner))
