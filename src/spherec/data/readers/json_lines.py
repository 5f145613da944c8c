"""JSON lines: one JSON object a line."""

import json
from pathlib import Path

import polars as pl

from spherec.data.events import Events
from spherec.data.frames import no_such_column
from spherec.data.readers.blocks import Block, read_blocks
from spherec.data.readers.collector import BadCellError, Collector
from spherec.data.reading import Reading
from spherec.errors import DataError


def read_json_lines(path: Path, reading: Reading) -> Events:
    """The events of a file of JSON objects. Ids that are whole numbers stay numbers."""
    collector = Collector(reading)
    roles = reading.columns.names
    schema: dict[str, pl.DataType] | None = None
    for block in read_blocks(path, encoding=reading.encoding, progress=reading.progress):
        if schema is None:
            schema = _schema(path, block, roles)
        frame = _frame(path, block, schema).select(**{role: pl.col(name) for role, name in roles.items()})
        try:
            collector.add(frame)
        except BadCellError as bad:
            line, found = _objects(block)[bad.row]
            cell = found.get(roles[bad.role]) if isinstance(found, dict) else None
            raise DataError(bad.sentence(f"{path}, line {line}", roles[bad.role], cell)) from None
        if collector.is_full:
            break
    return collector.finish(path)


def _schema(path: Path, block: Block, roles: dict[str, str]) -> dict[str, pl.DataType]:
    """The types of the wanted keys, from the file's first block."""
    try:
        found = pl.scan_ndjson(block.text, infer_schema_length=None).collect_schema()
    except pl.exceptions.PolarsError:
        raise DataError(_bad_line(path, block, {})) from None
    for name in roles.values():
        if name not in found:
            raise DataError(f"{path}: {no_such_column(name, found.names())} (--user-column, --item-column, …)")
    return {
        name: found[name] if role in ("user", "item") and found[name].is_integer() else pl.String()
        for role, name in roles.items()
    }


def _frame(path: Path, block: Block, schema: dict[str, pl.DataType]) -> pl.DataFrame:
    try:
        return pl.scan_ndjson(block.text, schema=schema).collect()
    except pl.exceptions.PolarsError:
        raise DataError(_bad_line(path, block, schema)) from None


def _bad_line(path: Path, block: Block, schema: dict[str, pl.DataType]) -> str:
    """One sentence on the first line that is no JSON object, or whose id is not of the type of the others."""
    for line, found in _objects(block):
        if not isinstance(found, dict):
            return f"{path}, line {line}: {found!r} is not a JSON object; mend the line"
        for name, kind in schema.items():
            cell = found.get(name)
            if kind.is_integer() and cell is not None and type(cell) is not int:
                place = f"{path}, line {line}"
                return f"{place}: {name!r} is {cell!r}, but a whole number in other lines; make them alike"
    return f"{path}, line {block.line}: not JSON lines; give one JSON object a line"


def _objects(block: Block) -> list[tuple[int, object]]:
    """Line number and content of each line that is not blank; the text itself where it is not JSON. For errors only."""
    found: list[tuple[int, object]] = []
    for number, text in enumerate(block.text.split(b"\n"), start=block.line):
        if text.strip():
            try:
                found.append((number, json.loads(text)))
            except ValueError:
                found.append((number, text[:60].decode(errors="replace")))
    return found
