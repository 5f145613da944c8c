"""JSON lines: one JSON object per line. Where an object has a key twice, the first counts."""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import polars as pl

from spherec.data.events import Events
from spherec.data.read.options import Reading
from spherec.data.read.streaming import BadCellError, Block, Collector, read_text
from spherec.errors import DataError, describe_missing_column, quote

_LOOKS_NESTED = r"^(?:[\[{]|true$|false$)"
_HIGH, _LOW = rb"\\u[dD][89abAB][\da-fA-F]{2}", rb"\\u[dD][c-fC-F][\da-fA-F]{2}"
_HALF_CHARACTER = re.compile(_HIGH + rb"(?!" + _LOW + rb")|(?<!\\u[dD][89abAB]..)" + _LOW)  # or an escaped backslash
_SHOWN = 60  # characters of a bad line in an error


def read_json_lines(path: Path, reading: Reading) -> Iterator[Events]:
    """Read the events of a file of JSON objects.

    Ids that are whole numbers stay numbers, if the first is one; otherwise all are read as strings.
    """
    collector = Collector(reading)
    roles = reading.columns.names
    schema: dict[str, pl.DataType] | None = None
    for block in read_text(path, reading):
        if schema is None:
            firsts = _first_values(path, block, roles)
            schema = _schema(firsts, roles)
            collector.present = firsts
        _refuse_half_characters(path, block, schema)
        frame = _parse(path, block, schema).select(**{role: pl.col(name) for role, name in roles.items()})
        _refuse_nested_ids(path, block, frame, roles)
        try:
            collector.add(frame)
        except BadCellError as bad:
            line, content = next(islice(_objects(block), bad.row, None))
            cell = content.get(roles[bad.role]) if isinstance(content, dict) else None
            raise DataError(bad.describe(f"{path}, line {line}", roles[bad.role], cell)) from None
        if collector.is_full:
            break
    return collector.finish(path)


def read_json_texts(path: Path, names: tuple[str, ...], reading: Reading) -> Iterator[tuple[str | None, ...]]:
    """Yield the values of these keys, object by object, all as strings."""
    schema: dict[str, pl.DataType] = {name: pl.String() for name in names}
    for block in read_text(path, reading):
        _refuse_half_characters(path, block, schema)
        yield from _parse(path, block, schema).select(names).iter_rows()


def read_json_frame(path: Path, name: str, reading: Reading) -> pl.DataFrame:
    """Return all keys of all objects as columns of Python values, None where an object has no such key.

    `name` is the key of ids, which every object must have.
    """
    columns: dict[str, list[object]] = {name: []}
    rows = 0
    for block in read_text(path, reading):
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


def _first_values(path: Path, block: Block, roles: dict[str, str]) -> dict[str, object]:
    """Return the keys of the first objects with their first values, until all wanted keys are there."""
    firsts: dict[str, object] = {}
    for line, content in _objects(block):
        if not isinstance(content, dict):
            raise DataError(_not_an_object(path, line, content))
        firsts = {**content, **{key: first for key, first in firsts.items() if first is not None}}
        if all(firsts.get(name) is not None for name in roles.values()):
            break
    for name in roles.values():
        if name not in firsts:
            raise DataError(f"{path}: {describe_missing_column(name, list(firsts))} (--user-column, --item-column, …)")
    return firsts


def _schema(firsts: dict[str, object], roles: dict[str, str]) -> dict[str, pl.DataType]:
    """Return the wanted keys with types; ids are whole numbers where the first of them in the file is one."""
    return {
        name: pl.Int64() if role in ("user", "item") and type(firsts[name]) is int else pl.String()
        for role, name in roles.items()
    }


def _parse(path: Path, block: Block, schema: dict[str, pl.DataType]) -> pl.DataFrame:
    """Return the keys of `schema` as columns."""
    try:
        return pl.scan_ndjson(block.text, schema=schema).collect()
    except pl.exceptions.PolarsError:
        raise DataError(_bad_line(path, block, schema)) from None


def _refuse_half_characters(path: Path, block: Block, names: Iterable[str]) -> None:
    """Raise a `DataError` for half a surrogate pair in a wanted value, of which polars makes a zero character."""
    for match in _HALF_CHARACTER.finditer(block.text):
        begin = block.text.rfind(b"\n", 0, match.start()) + 1
        end = block.text.find(b"\n", match.end())
        content = _load(block.text[begin : end if end >= 0 else None])
        for name in names:
            cell = content.get(name) if isinstance(content, dict) else None
            if isinstance(cell, str) and any("\ud800" <= character <= "\udfff" for character in cell):
                line = block.line + block.text.count(b"\n", 0, begin)
                raise DataError(
                    f"{path}, line {line}: {name!r} is {json.dumps(cell)[:_SHOWN]}, which has half a character in it "
                    "(a lone surrogate); correct the row"
                )


def _refuse_nested_ids(path: Path, block: Block, frame: pl.DataFrame, roles: dict[str, str]) -> None:
    """Raise a `DataError` for objects, arrays and booleans as ids, of which polars makes strings."""
    texts = [role for role in ("user", "item") if frame.schema[role] == pl.String]
    if not any(frame[role].str.contains(_LOOKS_NESTED).any() for role in texts):
        return
    for line, content in _objects(block):
        for name in (roles["user"], roles["item"]):
            cell = content.get(name) if isinstance(content, dict) else None
            if isinstance(cell, dict | list | bool):
                raise DataError(
                    f"{path}, line {line}: {name!r} is {str(cell)[:_SHOWN]}, which is no id; "
                    "give a field with strings or numbers, not inside another"
                )


def _bad_line(path: Path, block: Block, schema: dict[str, pl.DataType]) -> str:
    """Return one sentence on the first line that is no JSON object, or whose id is not of the type of the others."""
    for line, content in _objects(block):
        if not isinstance(content, dict):
            return _not_an_object(path, line, content)
        for name, kind in schema.items():
            cell = content.get(name)
            place = f"{path}, line {line}: {name!r} is {str(cell)[:_SHOWN]!r}"
            if kind.is_integer() and type(cell) is int and not -(2**63) <= cell < 2**63:
                return f"{place}, a number of more than 64 bits; write it in quotes, as a string"
            if kind.is_integer() and type(cell) not in (int, type(None)):
                return f"{place}, but a whole number in other lines; make them alike"
    return f"{path}, line {block.line}: not JSON lines; give one JSON object a line"


def _not_an_object(path: Path, line: int, content: object) -> str:
    if line == 1 and (content == "[" or isinstance(content, list)):
        return f"{path}, line 1: '[' is not a JSON object but a JSON array; write one object a line (jq -c '.[]')"
    if line == 1 and content == "{":
        return (
            f"{path}, line 1: '{{' begins a JSON document over several lines; write one object a line (jq -c '.[]', or "
            "with the name of its list: jq -c '.playlists[]')"
        )
    remedy = "mend the line"
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
