"""Export as a script for PostgreSQL with pgvector, data included: `psql -f FILE` makes tables and indexes."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from spherec.data.output_files import atomic_write
from spherec.export.table import ExportProgress, ExportTable
from spherec.geometry import Constraint

_MOST_INDEXED = 2_000  # dimensions that pgvector indexes
_SPACES = {
    "sphere": ("on the unit sphere", "<#>", "vector_ip_ops"),
    "ball": ("in the unit ball", "<->", "vector_l2_ops"),
}
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\v": "\\v"})


def write_pgvector(path: Path, tables: Sequence[ExportTable], constraint: Constraint, progress: ExportProgress) -> None:
    """Write one script for all tables. Either everything in it comes into the database, or nothing."""
    with atomic_write(path) as file:
        for text in _script(tables, constraint, progress):
            file.write(text.encode())


def _script(tables: Sequence[ExportTable], constraint: Constraint, progress: ExportProgress) -> Iterator[str]:
    where, operator, index = _SPACES[constraint]
    dim, dial, default = tables[0].dim, tables[0].dial_column, tables[0].model.mainstream
    counts = " and ".join(f"{len(table):,} {table.kind}s" for table in tables)
    size = f"{dim} dimensions, {where}" if dial is None else f"{dim} dimensions: {dial} {where}, 2 for reach"
    yield f"-- The vectors of {counts}, {size}. Load them with: psql -f THIS_FILE\n"
    yield f"-- Nearest first: ORDER BY embedding {operator} '[0.1, ...]' LIMIT 10\n"
    if dial is not None:
        yield f"-- Number {dial + 1} of a user's vector is mainstream ({default:g}), number {dim} is 0. To change it: "
        yield f"subvector(embedding, 1, {dial}) || '[0.1, 0]'::vector\n"
    yield "\\set ON_ERROR_STOP on\n"  # or psql would take the data of a COPY that failed for commands
    yield "SET client_encoding = 'UTF8';\nBEGIN;\nCREATE EXTENSION IF NOT EXISTS vector;\n"
    for table in tables:
        yield from _copy(table, progress)
        if dim <= _MOST_INDEXED:
            yield f"CREATE INDEX ON spherec_{table.kind}s USING hnsw (embedding {index});\n"
    yield "COMMIT;\n"


def _copy(table: ExportTable, progress: ExportProgress) -> Iterator[str]:
    """Yield the statements that make the table, and its rows in the text format of COPY."""
    id_type, named = "bigint" if table.ids_are_integers else "text", table.item_names is not None
    columns = f"id {id_type} PRIMARY KEY, {'name text, ' * named}embedding vector({table.dim}) NOT NULL"
    yield f"CREATE TABLE spherec_{table.kind}s ({columns});\n"
    yield f"COPY spherec_{table.kind}s (id, {'name, ' * named}embedding) FROM STDIN;\n"
    vector = f"[{','.join(['%.9g'] * table.dim)}]\n"  # nine digits bring every float32 back
    for block in table.blocks():
        for plain, name, numbers in zip(block.ids, block.names, block.vectors.tolist(), strict=True):
            fields = [str(plain), name] if named else [str(plain)]
            texts = ["\\N" if text is None else text.translate(_ESCAPES) for text in fields]
            yield "\t".join([*texts, vector % tuple(numbers)])
        progress.add(len(block))
    yield "\\.\n"
