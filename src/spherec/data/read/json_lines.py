"""JSON lines: one JSON object per line."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

import polars as pl

from spherec.data.read.formats import FilePlan, Rows
from spherec.data.read.streaming import Block, read_blocks
from spherec.errors import DataError, quote

_ODD = r"^(?:[\[{]|true$|false$)|\x00"  # polars makes a zero of half a character
_TYPES: dict[type, pl.DataType] = {int: pl.Int64(), float: pl.Float64()}
_LOOKED_AT = 100  # objects by whose keys a file is recognised


def read_rows(path: Path, plan: FilePlan) -> Iterator[Rows]:
    """Yield the values of a file of JSON objects.

    Ids of users and items that are numbers stay numbers, if the first of the file is one; otherwise all are strings.
    """
    roles = plan.roles
    ids = {name for role, name in roles.items() if role in ("user", "item")}
    firsts: dict[str, object] = {}  # of each key
    for block in read_blocks(path, plan):
        firsts = firsts or _find_first_values(path, block, roles)
        plan.refuse_missing(path, list(firsts))
        schema = {name: _TYPES.get(type(firsts[name]) if name in ids else str, pl.String()) for name in roles.values()}
        frame = None
        with suppress(pl.exceptions.PolarsError):
            frame = pl.scan_ndjson(block.text, schema=schema).collect()
        if frame is None or any(frame[name].str.contains(_ODD).any() for name in ids if schema[name] == pl.String()):
            _refuse_damage(path, block, ids, schema)
        if frame is None:
            raise DataError(f"{path}, line {block.line}: not JSON lines; mend the line")
        frame = frame.select(**{role: pl.col(name) for role, name in roles.items()})
        yield Rows(frame, partial(_locate, block, roles), list(firsts))


def read_json_frame(path: Path, name: str, plan: FilePlan) -> pl.DataFrame:
    """Return all keys of all objects as columns of Python values, None where an object has no such key.

    `name` is the key of ids, which every object must have.
    """
    objects = []
    for block in read_blocks(path, plan):
        for line, content in _objects(block):
            if not isinstance(content, dict):
                raise _not_an_object(path, line, content)
            if not isinstance(content.get(name), str | int) or isinstance(content[name], bool):
                shown = quote(content.get(name))
                raise DataError(f"{path}, line {line}: {name!r} is {shown}, which is no id; mend the line")
            objects.append(content)
    keys = dict.fromkeys((name, *(key for content in objects for key in content)))
    return pl.DataFrame([pl.Series(key, [one.get(key) for one in objects], dtype=pl.Object) for key in keys])


def looks_like_json(lines: list[str]) -> bool:
    """Return whether the first line of a file begins as a JSON object or list does."""
    return bool(lines) and re.match(r"""\s*(\{\s*(u?['"]|$)|\[\s*([{\["]|$))""", lines[0]) is not None


def read_objects(lines: list[str]) -> list[dict[str, object]]:
    """Return the objects of the first lines of JSON, up to one that is none, which the reader names."""
    objects: list[dict[str, object]] = []
    for line in lines[:_LOOKED_AT]:
        if not isinstance(content := _load(line), dict):
            break
        objects.append(content)
    return objects


def _find_first_values(path: Path, block: Block, roles: Mapping[str, str]) -> dict[str, object]:
    """Return the first value of each key, up to the object with which all wanted ones are there."""
    found: dict[str, object] = {}
    for number, (line, content) in enumerate(_objects(block), start=1):
        if not isinstance(content, dict):
            raise _not_an_object(path, line, content)
        found = {**content, **{key: first for key, first in found.items() if first is not None}}
        if number >= _LOOKED_AT and all(found.get(name) is not None for name in roles.values()):
            break
    return found


def _locate(block: Block, roles: Mapping[str, str], row: int, role: str) -> tuple[str, object]:
    line, content = next(islice(_objects(block), row, None))
    return f"line {line}", content.get(roles[role]) if isinstance(content, dict) else None


def _refuse_damage(path: Path, block: Block, ids: set[str], schema: Mapping[str, pl.DataType]) -> None:
    """Raise a `DataError` for the first line that is no JSON object, or whose id is not of the type of the others."""
    for line, content in _objects(block):
        if not isinstance(content, dict):
            raise _not_an_object(path, line, content)
        for name in ids:
            cell = content.get(name)
            place = f"{path}, line {line}: {name!r} is {quote(str(cell))}"
            if isinstance(cell, dict | list | bool) or (isinstance(cell, str) and re.search("[\ud800-\udfff]", cell)):
                raise DataError(f"{place}, which is no id; mend the line")
            if schema[name] != pl.String() and isinstance(cell, str if schema[name] == pl.Float64() else str | float):
                raise DataError(f"{place}, but a whole number in other lines; make them alike")
        try:
            pl.scan_ndjson(json.dumps(content).encode(), schema=schema).collect()
        except pl.exceptions.PolarsError:
            shown = quote(str(content))
            raise DataError(f"{path}, line {line}: {shown} has other types or over 64 bits; mend the line") from None


def _not_an_object(path: Path, line: int, content: object) -> DataError:
    remedy = "mend the line"
    if line == 1 and (content in ("[", "{") or isinstance(content, list)):
        remedy = "write one object a line (jq -c '.[]', or with the name of its list: jq -c '.playlists[]')"
    if isinstance(content, str) and re.match(r"\{u?'", content):
        remedy = "it is in Python's notation; write json.dumps(ast.literal_eval(line)) instead of each line"
    return DataError(f"{path}, line {line}: {quote(str(content))} is not a JSON object; {remedy}")


def _objects(block: Block) -> Iterator[tuple[int, object]]:
    """Yield number and content of each line that is not blank; the text itself where it is not JSON. Slow."""
    for number, line in enumerate(block.text.split(b"\n"), start=block.line):
        if line.strip():
            yield number, _load(line)


def _load(line: str | bytes) -> object:
    """Return the content of a line, or its text where it is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return (line if isinstance(line, str) else line.decode(errors="replace")).strip()
