"""DenseVectors as a script for PostgreSQL with pgvector, data included: `psql -f FILE` makes tables and indexes."""

from collections.abc import Iterator, Sequence
from os import PathLike

from spherec.data.files import atomic_write
from spherec.errors import DataError
from spherec.export.progress import Counter
from spherec.export.rows import Rows, refuse_unwritable_ids, writable_name
from spherec.geometry import Constraint

_MOST_DIMENSIONS, _MOST_INDEXED = 16_000, 2_000  # of pgvector
_OPERATORS = {"sphere": ("<#>", "vector_ip_ops"), "ball": ("<->", "vector_l2_ops")}
_WORDS = {"sphere": "on the unit sphere", "ball": "in the unit ball"}
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\v": "\\v"})


def write(path: str | PathLike[str], tables: Sequence[Rows], counter: Counter, constraint: Constraint) -> None:
    """Write one script: either everything in it comes into the database, or nothing."""
    dim = tables[0].vectors.shape[1]
    if dim > _MOST_DIMENSIONS:
        raise DataError(f"pgvector holds vectors of up to {_MOST_DIMENSIONS:,} dimensions, these have {dim:,}")
    with atomic_write(path) as file:
        for text in _script(tables, counter, constraint, dim):
            file.write(text.encode())


def _script(tables: Sequence[Rows], counter: Counter, constraint: Constraint, dim: int) -> Iterator[str]:
    operator, index = _OPERATORS[constraint]
    counts = " and ".join(f"{len(rows):,} {rows.kind}s" for rows in tables)
    yield f"-- The vectors of {counts}, {dim} dimensions, {_WORDS[constraint]}. Load them with: psql -f THIS_FILE\n"
    yield f"-- Nearest first: ORDER BY embedding {operator} '[0.1, ...]' LIMIT 10\n"
    yield "\\set ON_ERROR_STOP on\n"  # or psql would take the data of a COPY that failed for commands
    yield "SET client_encoding = 'UTF8';\nBEGIN;\nCREATE EXTENSION IF NOT EXISTS vector;\n"
    for rows in tables:
        yield from _table(rows, counter, dim)
        if dim <= _MOST_INDEXED:
            yield f"CREATE INDEX ON {_name(rows)} USING hnsw (embedding {index});\n"
        else:
            yield f"-- No index: pgvector indexes vectors of up to {_MOST_INDEXED:,} dimensions.\n"
    yield "COMMIT;\n"


def _table(rows: Rows, counter: Counter, dim: int) -> Iterator[str]:
    """The table, and its rows in the text format of COPY."""
    id_type, has_names = "bigint" if rows.ids_are_integers else "text", rows.names is not None
    columns = f"id {id_type} PRIMARY KEY, {'name text, ' if has_names else ''}embedding vector({dim}) NOT NULL"
    yield f"CREATE TABLE {_name(rows)} ({columns});\n"
    yield f"COPY {_name(rows)} (id, {'name, ' if has_names else ''}embedding) FROM STDIN;\n"
    vector = f"[{','.join(['%.9g'] * dim)}]\n"  # nine digits bring every float32 back
    for part in rows.blocks():
        ids = rows.plain_ids(part)
        refuse_unwritable_ids(ids, rows.kind, "PostgreSQL", nul=False)
        names = [f"{_field(name)}\t" for name in rows.names_of(part)] if has_names else [""] * len(ids)
        vectors = rows.vectors[part].tolist()
        yield "".join(
            f"{_field(str(one))}\t{name}{vector % tuple(numbers)}"
            for one, name, numbers in zip(ids, names, vectors, strict=True)
        )
        counter.add(part)
    yield "\\.\n"


def _field(text: str | None) -> str:
    return "\\N" if text is None else writable_name(text, nul=False).translate(_ESCAPES)


def _name(rows: Rows) -> str:
    return f"spherec_{rows.kind}s"
