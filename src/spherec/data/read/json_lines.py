"""JSON lines: one JSON object per line. Where an object has a key twice, the first counts."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path

import polars as pl

from spherec.data.read.formats import Reading, Rows
from spherec.data.read.streaming import Block, read_blocks
from spherec.errors import DataError, describe_missing_column, quote

_LOOKS_NESTED = r"^(?:[\[{]|true$|false$)"
_COLUMN_OPTIONS = "--user-column, --item-column, …"
_SHOWN = 60  # characters of a bad line in an error


def read_rows(
    path: Path, reading: Reading, roles: Mapping[str, str] | None = None, *, options: str = _COLUMN_OPTIONS
) -> Iterator[Rows]:
    """Yield the values of a file of JSON objects; `roles` maps names of columns to keys.

    Ids of users and items that are whole numbers stay numbers, if the first of the file is one; otherwise all are
    strings.
    """
    roles = reading.roles if roles is None else roles
    firsts: dict[str, object] = {}  # of each key
    for block in read_blocks(path, reading):
        if any(firsts.get(name) is None for name in roles.values()):
            firsts = _add_first_values(path, block, roles, firsts)
        if absent := [name for name in roles.values() if name not in firsts]:
            raise DataError(f"{path}: {describe_missing_column(absent[0], list(firsts))} ({options})")
        kinds = {role: type(firsts[name]) for role, name in roles.items() if role in ("user", "item")}
        schema = {name: pl.Int64() if kinds.get(role) is int else pl.String() for role, name in roles.items()}
        try:
            frame = pl.scan_ndjson(block.text, schema=schema).collect()
        except pl.exceptions.PolarsError:
            raise DataError(_describe_bad_line(path, block, schema)) from None
        frame = frame.select(**{role: pl.col(name) for role, name in roles.items()})
        _refuse_nested_ids(path, block, frame, roles)
        yield Rows(frame, partial(_locate, block, roles), list(firsts))


def read_json_frame(path: Path, name: str, reading: Reading) -> pl.DataFrame:
    """Return all keys of all objects as columns of Python values, None where an object has no such key.

    `name` is the key of ids, which every object must have.
    """
    columns: dict[str, list[object]] = {name: []}
    rows = 0
    for block in read_blocks(path, reading):
        for line, content in _objects(block):
            if not isinstance(content, dict):
                raise DataError(_not_an_object(path, line, content))
            if not isinstance(content.get(name), str | int) or isinstance(content[name], bool):
                shown = quote(content.get(name))
                raise DataError(f"{path}, line {line}: {name!r} is {shown}, which is no id; mend the line")
            for key, value in reversed(content.items()):  # in the order of the line; see `_load`
                columns.setdefault(key, [None] * rows).append(value)
            rows += 1
            for column in columns.values():
                if len(column) < rows:
                    column.append(None)
    return pl.DataFrame([pl.Series(key, column, dtype=pl.Object) for key, column in columns.items()])


def looks_like_json(lines: list[str]) -> bool:
    """Return whether the first line of a file begins as a JSON object does."""
    return bool(lines) and re.match(r'\s*\{\s*"', lines[0]) is not None


def read_objects(lines: list[str]) -> list[dict[str, object]]:
    """Return the objects of the first lines of JSON, up to one that is none, which the reader names."""
    objects: list[dict[str, object]] = []
    for _, content in _objects(Block("\n".join(lines[:100]).encode(), 1)):
        if not isinstance(content, dict):
            break
        objects.append(dict(reversed(content.items())))
    return objects


def _locate(block: Block, roles: Mapping[str, str], row: int, role: str) -> tuple[str, object]:
    line, content = next(islice(_objects(block), row, None))
    return f"line {line}", content.get(roles[role]) if isinstance(content, dict) else None


def _add_first_values(
    path: Path, block: Block, roles: Mapping[str, str], firsts: Mapping[str, object]
) -> dict[str, object]:
    """Return the first value of each key so far, up to the object with which all wanted ones are there."""
    found = dict(firsts)
    for line, content in _objects(block):
        if not isinstance(content, dict):
            raise DataError(_not_an_object(path, line, content))
        found = {**content, **{key: first for key, first in found.items() if first is not None}}
        if all(found.get(name) is not None for name in roles.values()):
            break
    return found


def _refuse_nested_ids(path: Path, block: Block, frame: pl.DataFrame, roles: Mapping[str, str]) -> None:
    """Raise a `DataError` for objects, arrays and booleans as ids, of which polars makes strings."""
    texts = [role for role in ("user", "item") if frame.schema.get(role) == pl.String]
    if not any(frame[role].str.contains(_LOOKS_NESTED).any() for role in texts):
        return
    for line, content in _objects(block):
        for role in texts:
            cell = content.get(roles[role]) if isinstance(content, dict) else None
            if isinstance(cell, dict | list | bool):
                shown = str(cell)[:_SHOWN]
                raise DataError(f"{path}, line {line}: {roles[role]!r} is {shown}, which is no id; mend the line")


def _describe_bad_line(path: Path, block: Block, schema: Mapping[str, pl.DataType]) -> str:
    """Return one sentence on the first line that is no JSON object, or whose id is not of the type of the others."""
    for line, content in _objects(block):
        if not isinstance(content, dict):
            return _not_an_object(path, line, content)
        for name in (name for name, kind in schema.items() if kind.is_integer()):
            cell = content.get(name)
            place = f"{path}, line {line}: {name!r} is {str(cell)[:_SHOWN]!r}"
            if type(cell) not in (int, type(None)):
                return f"{place}, but a whole number in other lines; make them alike"
            if cell is not None and not -(2**63) <= cell < 2**63:
                return f"{place}, a number of more than 64 bits; write it in quotes, as a string"
        try:
            pl.scan_ndjson(json.dumps(content).encode(), schema=schema).collect()
        except pl.exceptions.PolarsError:
            return f"{path}, line {line}: {str(content)[:_SHOWN]!r} is not JSON that can be read; mend the line"
    return f"{path}, line {block.line}: not JSON lines; give one JSON object a line"


def _not_an_object(path: Path, line: int, content: object) -> str:
    remedy = "mend the line"
    if line == 1 and (content in ("[", "{") or isinstance(content, list)):
        remedy = "write one object a line (jq -c '.[]', or with the name of its list: jq -c '.playlists[]')"
    if isinstance(content, str) and re.match(r"\{u?'", content):
        remedy = "it is in Python's notation; write json.dumps(ast.literal_eval(line)) instead of each line"
    return f"{path}, line {line}: {str(content)[:_SHOWN]!r} is not a JSON object; {remedy}"


def _objects(block: Block) -> Iterator[tuple[int, object]]:
    """Yield number and content of each line that is not blank; the text itself where it is not JSON. Slow."""
    for number, text in enumerate(block.text.split(b"\n"), start=block.line):
        if text.strip():
            yield number, _load(text)


def _load(line: bytes) -> object:
    """Return the content of a line, or its text where it is not JSON; of a repeated key the first counts."""
    try:
        return json.loads(line, parse_constant=_refuse_constant, object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    except (ValueError, RecursionError):
        return line.decode(errors="replace").strip()


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is no JSON")
