"""Export as a script for PostgreSQL with pgvector, data included: `psql -f FILE` makes tables and indexes."""

from collections.abc import Iterator, Sequence
from os import PathLike

from spherec.data.output_files import atomic_write
from spherec.errors import DataError
from spherec.export.table import ExportProgress, ExportTable, clean_name, refuse_unwritable_ids
from spherec.geometry import Constraint

_MOST_DIMENSIONS, _MOST_INDEXED = 16_000, 2_000  # of pgvector
_OPERATORS = {"sphere": ("<#>", "vector_ip_ops"), "ball": ("<->", "vector_l2_ops")}
_WORDS = {"sphere": "on the unit sphere", "ball": "in the unit ball"}
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\v": "\\v"})


class PgvectorFormat:
    """A script for psql. Either everything in it comes into the database, or nothing."""

    name = "pgvector"
    suffix = ".sql"

    def write(
        self, path: str | PathLike[str], tables: Sequence[ExportTable], constraint: Constraint, progress: ExportProgress
    ) -> None:
        """Write one script for all tables."""
        dim = tables[0].dim
        if dim > _MOST_DIMENSIONS:
            raise DataError(f"pgvector holds vectors of up to {_MOST_DIMENSIONS:,} dimensions, these have {dim:,}")
        with atomic_write(path) as file:
            for text in _script(tables, constraint, progress):
                file.write(text.encode())


def _script(tables: Sequence[ExportTable], constraint: Constraint, progress: ExportProgress) -> Iterator[str]:
    operator, index = _OPERATORS[constraint]
    dim, counts = tables[0].dim, " and ".join(f"{len(table):,} {table.kind}s" for table in tables)
    where, dial = _WORDS[constraint], tables[0].dial_column
    size = f"{dim} dimensions, {where}" if dial is None else f"{dim} dimensions: {dial} {where}, 2 for reach"
    yield f"-- The vectors of {counts}, {size}. Load them with: psql -f THIS_FILE\n"
    yield f"-- Nearest first: ORDER BY embedding {operator} '[0.1, ...]' LIMIT 10\n"
    yield from _describe_dial(tables[0])
    yield "\\set ON_ERROR_STOP on\n"  # or psql would take the data of a COPY that failed for commands
    yield "SET client_encoding = 'UTF8';\nBEGIN;\nCREATE EXTENSION IF NOT EXISTS vector;\n"
    for table in tables:
        yield from _copy(table, progress)
        if dim <= _MOST_INDEXED:
            yield f"CREATE INDEX ON {_name(table)} USING hnsw (embedding {index});\n"
        else:
            yield f"-- No index: pgvector indexes vectors of up to {_MOST_INDEXED:,} dimensions.\n"
    yield "COMMIT;\n"


def _describe_dial(table: ExportTable) -> Iterator[str]:
    """Yield the comment that says which coordinate of a query is the dial, if items have reach."""
    if table.dial_column is not None:
        dial, last, default = table.dial_column + 1, table.dim, table.vectors.mainstream
        yield f"-- Number {dial} of a user's vector is mainstream ({default:g}), number {last} is 0. To change it: "
        yield f"subvector(embedding, 1, {table.dial_column}) || '[0.1, 0]'::vector\n"


def _copy(table: ExportTable, progress: ExportProgress) -> Iterator[str]:
    """Yield the statements that make the table, and its rows in the text format of COPY."""
    id_type = "bigint" if table.ids_are_integers else "text"
    columns = (
        f"id {id_type} PRIMARY KEY, {'name text, ' if table.has_names else ''}embedding vector({table.dim}) NOT NULL"
    )
    yield f"CREATE TABLE {_name(table)} ({columns});\n"
    yield f"COPY {_name(table)} (id, {'name, ' if table.has_names else ''}embedding) FROM STDIN;\n"
    vector = f"[{','.join(['%.9g'] * table.dim)}]\n"  # nine digits bring every float32 back
    for block in table.blocks():
        refuse_unwritable_ids(block, "PostgreSQL", nul=False)
        names = [f"{_field(name)}\t" for name in block.names] if table.has_names else [""] * len(block)
        yield "".join(
            f"{_field(str(plain))}\t{name}{vector % tuple(numbers)}"
            for plain, name, numbers in zip(block.ids, names, block.vectors.tolist(), strict=True)
        )
        progress.add(len(block))
    yield "\\.\n"


def _field(text: str | None) -> str:
    return "\\N" if text is None else clean_name(text, nul=False).translate(_ESCAPES)


def _name(table: ExportTable) -> str:
    return f"spherec_{table.kind}s"
