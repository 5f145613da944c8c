"""Files in pieces, so that memory stays small: text as blocks of whole lines, and frames of columns into `Events`.

Every reader uses both ends. `read_blocks` is the one place that opens raw text, plain or gzipped, and gives UTF-8. A
`Collector` takes the columns of one piece after the other and turns ids into 32-bit numbers at once.
"""

import codecs
import gzip
import math
import os
import re
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from spherec.data.archive import USUAL_RATIO, largest_unpacked
from spherec.data.events import Events
from spherec.data.ids import GrowingIds, as_id_array, factorize, invert
from spherec.data.input_files import refuse_unreadable
from spherec.data.read.options import Reading, ReadProgress
from spherec.errors import ArgumentError, DataError, EmptyFileError

_BLOCK_BYTES = 1 << 24
_LONGEST_RECORD = 1 << 26  # a line that has not ended by then is no text at all
_LONGEST_QUOTED_RECORD = 1 << 22  # a record that has not ended by then has an unclosed quote
_LONGEST_FIRST_RECORD = 1 << 20  # likewise for a header
_SAMPLE_BYTES = 1 << 20  # by which a file is recognised
_PIECE_BYTES = 1 << 20  # unpacked at once
_USUAL_UNPACKED = 1 << 22  # bytes to which any gzip file may unpack
_UNENDED = (
    "{path}, line {line}: a record without end; close its quote, or take quotes for ordinary characters with "
    "quotes=False (--no-quotes)"
)
_NO_TEXT = {
    b"PK\x03\x04": "a zip archive; unpack it (an Excel workbook: save it as CSV; a prepared file: it is damaged)",
    b"PAR1": "a Parquet file; read it with format='parquet' (--format parquet)",
    b"\xfd7zX": "packed by xz; unpack it, or pack it with gzip",
    b"\x28\xb5\x2f\xfd": "packed by zstd; unpack it, or pack it with gzip",
    b"SQLite format 3\0": "a SQLite database; write the table to a CSV file (sqlite3 -csv -header FILE 'SELECT …')",
    b"ARROW1\0\0": "a Feather or Arrow file; write it as Parquet",
    b"\x93NUMPY": "an array of NumPy; write the pairs as a table, or the matrix with scipy.sparse.save_npz",
    b"\x89HDF": "an HDF5 file; write the table as Parquet or CSV",
    b"Obj\x01": "an Avro file; write it as Parquet or CSV",
    **{b"BZh%d1AY&SY" % level: "packed by bzip2; unpack it, or pack it with gzip" for level in range(1, 10)},
    **{bytes((0x80, version)): "a pickle, which is never read; write the table as Parquet" for version in (2, 3, 4, 5)},
}
_ABSENT = ("NA", "N/A")  # no id among numbers, but one among texts
_ENOUGH_NUMBERS = 10
_ISO_DATE = r"^\d{4}-\d{2}-\d{2}"


# --- Text in blocks --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """Whole records of a text file."""

    text: bytes
    "UTF-8."
    line: int
    "Number of its first line in the file, from 1."
    position: int = 0
    "Bytes of the file that were read up to its end."


def read_blocks(
    path: Path,
    *,
    encoding: str = "utf-8",
    quote: bytes = b"",
    progress: ReadProgress | None = None,
    max_unpacked: float | None = None,
    block_bytes: int = _BLOCK_BYTES,
) -> Iterator[Block]:
    """Yield the file, block by block. A line break between two `quote` characters does not end a record."""
    refuse_unreadable(path)
    total = os.path.getsize(path)
    with closing(_read_ahead(_blocks(path, encoding, quote, block_bytes, max_unpacked))) as blocks:
        for block in blocks:
            if progress is not None:
                progress(block.position, total)
            yield block
    if progress is not None:
        progress(total, total)


def read_text(path: Path, reading: Reading, *, quote: bytes = b"") -> Iterator[Block]:
    """Yield the file, block by block, as the options say."""
    return read_blocks(
        path, encoding=reading.encoding, quote=quote, progress=reading.progress, max_unpacked=reading.max_unpacked
    )


def _read_ahead(blocks: Iterator[Block]) -> Generator[Block]:
    """Yield the same blocks, each read and unpacked in another thread while the caller works on the one before."""
    reader = ThreadPoolExecutor(max_workers=1)
    try:
        coming = reader.submit(next, blocks, None)
        while (block := coming.result()) is not None:
            coming = reader.submit(next, blocks, None)
            yield block
    finally:
        reader.shutdown(wait=False, cancel_futures=True)


def _blocks(path: Path, encoding: str, quote: bytes, block_bytes: int, max_unpacked: float | None) -> Iterator[Block]:
    rest, line, is_blank = b"", 1, True
    longest = _LONGEST_QUOTED_RECORD if quote else _LONGEST_RECORD
    with open(path, "rb") as raw:
        for chunk in _decode(path, _unpack(path, raw, max_unpacked), encoding, block_bytes):
            rest += chunk
            end = _last_record_end(rest, quote)
            if end:
                text, rest = rest[:end], rest[end:]
                block = _check_text(path, text, line, raw.tell())
                line += text.count(b"\n")
                is_blank = is_blank and block.text.isspace()
                yield block
            if len(rest) > longest:
                raise DataError(_UNENDED.format(path=path, line=line))
        if line == 1:
            rest = rest.removeprefix(codecs.BOM_UTF8)
        if rest.strip():
            yield _check_text(path, rest, line, raw.tell())
        elif is_blank:
            raise EmptyFileError(f"{path} holds no text; give a file with events")


def first_record(path: Path, *, encoding: str = "utf-8", quote: bytes = b"") -> Block:
    """Return the first line that is not empty, or the first record where its quotes span lines."""
    refuse_unreadable(path)
    text, line, searched, is_quoted = b"", 1, 0, False  # `searched`: bytes of the text in which no record ends
    with open(path, "rb") as raw:
        for number, chunk in enumerate(_decode(path, _unpack(path, raw, math.inf), encoding, 1 << 16)):
            text += chunk if number else chunk.removeprefix(codecs.BOM_UTF8)
            if not searched:
                begin = len(text) - len(text.lstrip(b"\r\n"))
                line, text = line + text.count(b"\n", 0, begin), text[begin:]
            while end := text.find(b"\n", searched) + 1:
                is_quoted ^= bool(quote) and text.count(quote, searched, end) % 2 == 1
                searched = end
                if not is_quoted:
                    return _check_text(path, text[:end], line)
            if len(text) > _LONGEST_FIRST_RECORD:
                _check_text(path, text, line, whole=False)
                raise DataError(_UNENDED.format(path=path, line=line))
    if not text.strip():
        raise EmptyFileError(f"{path} holds no text; give a file with events")
    return _check_text(path, text, line)


def first_lines(path: Path, *, encoding: str = "utf-8") -> list[str]:
    """Return the whole lines within the first megabyte, decoded with replacements: to recognise the file by."""
    refuse_unreadable(path)
    with open(path, "rb") as raw:
        sample = next(_decode(path, _unpack(path, raw, math.inf), encoding, _SAMPLE_BYTES), b"")
    text = sample.removeprefix(codecs.BOM_UTF8).decode(errors="replace")
    lines = text.split("\n")
    if len(sample) >= _SAMPLE_BYTES and len(lines) > 1:
        lines.pop()  # it may be cut off
    return [line.removesuffix("\r") for line in lines if line.strip()]


def is_utf8(path: Path) -> bool:
    """Return whether the whole text is UTF-8. For small files: it is read once for this alone."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with open(path, "rb") as raw:
        try:
            for chunk in _decode(path, _unpack(path, raw), "utf-8", _BLOCK_BYTES):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


class _BoundedGzip:
    """A gzip file that raises a `DataError` before it unpacks to more than is allowed.

    By default, what has been read of it may have unpacked to 200 times its size, or to 4 MB if that is more: a bomb is
    refused at its beginning, before anything is parsed.
    """

    def __init__(self, path: Path, raw: IO[bytes], max_unpacked: float | None) -> None:
        self._path = path
        self._raw = raw
        self._file = gzip.GzipFile(fileobj=raw)
        self._max_unpacked = max_unpacked
        self._bytes = 0

    def read(self, size: int) -> bytes:
        pieces: list[bytes] = []
        while size > 0 and (piece := self._file.read(min(size, _PIECE_BYTES))):
            pieces.append(piece)
            size -= len(piece)
            self._bytes += len(piece)
            largest = largest_unpacked(self._raw.tell(), self._max_unpacked, usual=_USUAL_UNPACKED)
            if self._bytes > largest:
                many = f"{USUAL_RATIO} times its size" if self._max_unpacked is None else f"{self._max_unpacked:g} GB"
                raise DataError(
                    f"{self._path} unpacks to more than {many}; if you trust it, allow more with max_unpacked= "
                    "(--max-unpacked), in GB"
                )
        return b"".join(pieces)


def _unpack(path: Path, raw: IO[bytes], max_unpacked: float | None = None) -> "IO[bytes] | _BoundedGzip":
    magic = raw.read(max(map(len, _NO_TEXT)))
    raw.seek(0)
    if not magic:
        raise EmptyFileError(f"{path} is empty (0 bytes); give a file with events")
    for start, description in _NO_TEXT.items():
        if magic.startswith(start):
            raise DataError(f"{path} is {description}")
    return _BoundedGzip(path, raw, max_unpacked) if magic.startswith(b"\x1f\x8b") else raw


def _decode(path: Path, file: "IO[bytes] | _BoundedGzip", encoding: str, block_bytes: int) -> Iterator[bytes]:
    """Yield the file's content in UTF-8."""
    try:
        "x".encode(encoding)
    except (LookupError, ValueError):
        raise ArgumentError(f"encoding must be a text encoding of Python's, got {encoding!r}; try 'latin-1'") from None
    decoder = codecs.getincrementaldecoder(encoding)()
    is_utf8 = codecs.lookup(encoding).name == "utf-8"
    while True:
        try:
            chunk = file.read(block_bytes)
            text = chunk if is_utf8 else decoder.decode(chunk, final=not chunk).encode()
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{path} is a damaged or truncated gzip file ({error}); fetch it again") from None
        except UnicodeError as error:
            raise DataError(f"{path} is not {encoding} ({error}); name its encoding") from None
        if text:
            yield text
        if not chunk:
            return


def _last_record_end(text: bytes, quote: bytes) -> int:
    """Return where the last complete record ends: after the last line break outside quotes; 0 where there is none."""
    end = text.rfind(b"\n") + 1
    if not quote:
        return end
    open_quote = text.count(quote, 0, end) % 2 == 1
    while end and open_quote:
        last_quote = text.rfind(quote, 0, end)  # all line breaks after it are open, too
        earlier = text.rfind(b"\n", 0, last_quote) + 1
        open_quote ^= text.count(quote, earlier, end) % 2 == 1
        end = earlier
    return end


def _check_text(path: Path, block: bytes, line: int, position: int = 0, *, whole: bool = True) -> Block:
    """Return the text as a block; a `DataError` if it is not UTF-8. Not `whole`: it may end in half a character."""
    if line == 1:
        block = block.removeprefix(codecs.BOM_UTF8)
    if not block.isascii():
        try:
            codecs.getincrementaldecoder("utf-8")().decode(block, final=whole)
        except UnicodeDecodeError as error:
            at = line + block.count(b"\n", 0, error.start)
            has_mark = block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            likely = "which its first bytes say is 'utf-16'" if has_mark else "such as 'latin-1' or 'utf-16'"
            raise DataError(
                f"{path}, line {at}: byte 0x{block[error.start]:02x} is not UTF-8; name the file's encoding, {likely}, "
                "with encoding= (--encoding)"
            ) from None
    if b"\0" in block:
        at = line + block.count(b"\n", 0, block.index(b"\0"))
        raise DataError(f"{path}, line {at}: a zero byte, so this is not plain text; name its encoding or format")
    return Block(block, line, position)


# --- Columns into events ---------------------------------------------------------------------------------------------


class BadCellError(Exception):
    """A cell cannot be used; the reader, which knows where rows come from, makes a `DataError` of it."""

    def __init__(self, row: int, role: str, problem: str, *, droppable: bool = False) -> None:
        self.row = row
        self.role = role
        self.problem = problem
        self.droppable = droppable

    def describe(self, place: str, column: str, cell: object) -> str:
        """Return the message: where, which column, what is there, and what to do."""
        shown = repr(cell) if len(repr(cell)) <= 60 else f"{repr(cell)[:60]}…"
        remedy = "; correct the row"
        if self.role == "value" and isinstance(cell, str) and "," in cell:
            remedy = "; write numbers like 4.5 and 1000, without commas"
        if self.droppable:
            remedy += ", or leave such rows out with missing='drop' (--missing drop)"
        return f"{place}: column {column!r} is {shown}, {self.problem}{remedy}"


class Collector:
    """`Events` in the making, from frames with the columns user, item and perhaps value and time."""

    def __init__(self, reading: Reading) -> None:
        self.present: Iterable[str] = ()  # all columns of the table
        self._reading = reading
        on_disk = reading.scratch is not None
        self._users, self._items = _IdColumn(on_disk=on_disk), _IdColumn(on_disk=on_disk)
        self._pieces = _InMemory() if reading.scratch is None else _OnDisk(reading.scratch)
        self._rows = 0  # seen
        self._kept = 0  # of them
        self._repeats = 0  # seen, but no events: they repeat the names of the columns
        self._lacks_times = False
        self.empty_lines = 0  # lines of a list that have no items

    @property
    def is_full(self) -> bool:
        """The rows that were asked for are here."""
        return self._reading.limit is not None and self._kept >= self._reading.limit

    @property
    def n_users(self) -> int:
        """Number of users so far, whose ids are texts."""
        return len(self._users)

    def _up_to_limit(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame if self._reading.limit is None else frame.head(self._reading.limit - self._kept)

    def add(self, frame: pl.DataFrame) -> None:
        """Add the rows of a frame; a `BadCellError` names the first that cannot be used."""
        frame = frame.with_row_index("row")
        if self._reading.missing == "error":
            frame = self._up_to_limit(frame)
        self._rows += frame.height
        frame = self._without_names(frame)
        for role in ("user", "item"):
            _refuse_nested(frame, role)
            if frame.schema[role] in (pl.Categorical, pl.Enum):
                frame = frame.with_columns(pl.col(role).cast(pl.String))
            missing = _is_missing(frame[role])
            if self._reading.missing == "drop":
                frame = frame.filter(~missing)
            elif missing.any():
                raise BadCellError(frame["row"][missing.arg_max() or 0], role, f"which is no {role}", droppable=True)
        frame = self._up_to_limit(frame)
        self._kept += frame.height
        if not frame.height:
            return
        codes = frame.select(self._users.encode(frame["user"]), self._items.encode(frame["item"]))  # both at once
        piece = {"user": self._users.number(codes["user"]), "item": self._items.number(codes["item"])}
        if "value" in frame.columns:
            piece["value"] = _numbers(frame, "value")
        if "time" in frame.columns and not self._lacks_times:
            try:
                piece["time"] = _seconds(frame, self._reading.columns.time_format)
            except BadCellError:
                if not self._reading.is_time_recognised:
                    raise
                self._lacks_times = True
        self._pieces.append(piece)

    def _without_names(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Drop or refuse rows that hold the names of the columns: the headers of tables that were joined into one."""
        if frame.schema["user"] != pl.String or frame.schema["item"] != pl.String:
            return frame
        names = self._reading.columns
        repeats = ((frame["user"] == names.user) & (frame["item"] == names.item)).fill_null(False)
        if self._reading.missing == "error" and repeats.any():
            problem = "the name of the column, as if several tables were joined"
            raise BadCellError(frame["row"][repeats.arg_max() or 0], "user", problem, droppable=True)
        self._repeats += int(repeats.sum())
        return frame.filter(~repeats)

    def finish(self, path: Path) -> Iterator[Events]:
        """Yield all rows so far, at once or in pieces, which share their ids; `path` is where they came from."""
        if not self._rows:
            raise EmptyFileError(f"{path} has no rows; give a file with events")
        users, user_ids = self._users.finish()  # (U,), (U,)
        items, item_ids = self._items.finish()  # (I,), (I,)
        absent = {"user": _is_absent(user_ids)[users], "item": _is_absent(item_ids)[items]}  # (U,), (I,) by number
        are_absent = any(ids.any() for ids in absent.values())
        dropped = self._rows - self._kept + (self._count_absent(path, absent) if are_absent else 0)
        if dropped == self._rows:
            raise DataError(f"{path}: all {dropped:,} rows lack user or item; name the right columns")
        if self._lacks_times and self._reading.report is not None:
            column = self._reading.columns.time
            self._reading.report(f"{path}: column {column!r} is not read, because not all of its cells are times")
        left_out = {
            "rows that have no user or item": dropped - self._repeats,
            "rows that repeat the names of the columns": self._repeats,
            "lines that have no items": self.empty_lines,
        }
        for piece in self._pieces:
            events = Events(
                users[piece["user"]],
                items[piece["item"]],
                user_ids,
                item_ids,
                values=piece.get("value"),
                times=None if self._lacks_times else piece.get("time"),
                unread_value=self._reading.columns.unread_value(self.present),
                left_out=tuple((description, number) for description, number in left_out.items() if number),
            )
            yield events.filter(~_find_absent(piece, absent)) if are_absent else events

    def _count_absent(self, path: Path, absent: Mapping[str, NDArray[np.bool_]]) -> int:
        """Return how many rows have an absent id; raise a `DataError` if rows without ids are refused."""
        for role, ids in absent.items() if self._reading.missing == "error" else ():
            if rows := sum(int(ids[piece[role]].sum()) for piece in self._pieces):
                column = self._reading.columns.names[role]
                raise DataError(
                    f"{path}: column {column!r} is NA in {rows:,} rows, and a number in all others; leave these rows "
                    "out with missing='drop' (--missing drop)"
                )
        return sum(int(_find_absent(piece, absent).sum()) for piece in self._pieces)


_Piece = dict[str, NDArray[Any]]  # columns of equal length, by role


class _InMemory:
    """Rows that arrive in pieces, and come back as one."""

    def __init__(self) -> None:
        self._columns: dict[str, list[NDArray[Any]]] = {}

    def append(self, piece: _Piece) -> None:
        for role, column in piece.items():
            self._columns.setdefault(role, []).append(column)

    def __iter__(self) -> Iterator[_Piece]:
        for columns in self._columns.values():
            columns[:] = [columns[0] if len(columns) == 1 else np.concatenate(columns)]
        yield {role: columns[0] for role, columns in self._columns.items()}


class _OnDisk:
    """Rows that arrive in pieces, and come back as they arrived, from a file in a folder for one file at a time."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "rows"
        self._path.write_bytes(b"")
        self._layouts: list[dict[str, tuple[np.dtype[Any], int]]] = []  # types and lengths of the columns of a piece

    def append(self, piece: _Piece) -> None:
        self._layouts.append({role: (column.dtype, len(column)) for role, column in piece.items()})
        with self._path.open("ab") as file:
            for column in piece.values():
                file.write(column.data)  # unlike tofile, it names what is wrong with the disk

    def __iter__(self) -> Iterator[_Piece]:
        with self._path.open("rb") as file:
            for layout in self._layouts:
                yield {role: np.fromfile(file, dtype, length) for role, (dtype, length) in layout.items()}


class _IdColumn:
    """A column of ids that arrives in pieces; ids are kept apart from the rows, which have their numbers.

    Integers are kept once for each piece, which is faster than a search for those that were there before; or once in
    all, if rows are `on_disk` and their distinct ids alone are to stay in memory.
    """

    def __init__(self, *, on_disk: bool) -> None:
        self._on_disk = on_disk
        self._integers: list[NDArray[Any]] = []  # distinct ids of each piece
        self._n_integers = 0
        self._categories = pl.Categories.random()
        self._holder = pl.Series(dtype=pl.Categorical(self._categories))  # polars forgets strings that nothing holds
        self._others = GrowingIds("id")
        self._is_text = False

    def encode(self, ids: pl.Series) -> pl.Expr:
        """Return the expression that makes numbers of strings; any other column stays as it is."""
        self._is_text = ids.dtype == pl.String
        column = pl.col(ids.name)
        return column.cast(pl.Categorical(self._categories)).to_physical() if self._is_text else column

    def number(self, ids: pl.Series) -> NDArray[Any]:
        """Return the numbers (e,) of a column after `encode`."""
        if self._is_text:
            return ids.to_numpy()
        if ids.dtype.is_integer() and ids.dtype not in (pl.Int128, pl.UInt128):
            distinct, places = np.unique(ids.to_numpy(), return_inverse=True)
            if self._on_disk:
                return self._others.encode(distinct)[places]
            first, self._n_integers = self._n_integers, self._n_integers + len(distinct)
            self._integers.append(distinct)
            return (first + places).astype(np.min_scalar_type(self._n_integers))
        return self._others.encode(as_id_array(ids.to_list(), ids.name))

    def finish(self) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Return the place (n,) of each number among the distinct ids (n,), which are sorted."""
        if not self._is_text:
            return factorize(np.concatenate(self._integers) if self._integers else self._others.array(), "id")
        ids = self._categories.to_series()
        order = ids.arg_sort().to_numpy()
        return invert(order).astype(np.int32), ids.to_numpy()[order].astype(object)

    def __len__(self) -> int:
        return len(self._categories.to_series())


def _is_absent(ids: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which ids (n,) are NA, where all others are numbers: a row with such an id has none."""
    if ids.dtype != object:
        return np.zeros(len(ids), np.bool_)
    absent = np.fromiter((one in _ABSENT for one in ids), np.bool_, len(ids))
    others = ids[~absent] if absent.any() else ()
    if len(others) < _ENOUGH_NUMBERS or not all(isinstance(one, str) and one.isdecimal() for one in others):
        absent[:] = False
    return absent


def _find_absent(piece: _Piece, absent: Mapping[str, NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Return which rows (e,) have an absent id."""
    found: NDArray[np.bool_] = absent["user"][piece["user"]] | absent["item"][piece["item"]]
    return found


def _is_missing(ids: pl.Series) -> pl.Series:
    missing = ids.is_null()
    if ids.dtype == pl.String:
        missing |= (ids == "").fill_null(True)
    elif ids.dtype.is_float():
        missing |= ids.is_nan().fill_null(True)
    return missing


def _refuse(frame: pl.DataFrame, bad: pl.Series, role: str, problem: str) -> None:
    if bad.any():
        raise BadCellError(frame["row"][bad.arg_max() or 0], role, problem)


def _refuse_nested(frame: pl.DataFrame, role: str) -> None:
    if frame.height and frame.schema[role].is_nested():
        is_list = isinstance(frame.schema[role], pl.List | pl.Array)
        problem = "a list, each entry of which needs a row of its own" if is_list else "neither a text nor a number"
        raise BadCellError(frame["row"][0], role, f"which is {problem}")


def _numbers(frame: pl.DataFrame, role: str) -> NDArray[np.float64]:
    _refuse_nested(frame, role)
    try:
        numbers = _yes_or_no(frame[role]).cast(pl.Float64, strict=False)  # null: missing, or not a number
    except pl.exceptions.PolarsError:
        raise BadCellError(frame["row"][0], role, "which is not a number") from None
    _refuse(frame, ~numbers.is_finite().fill_null(False), role, "which is not a number")
    return numbers.to_numpy()


def _yes_or_no(column: pl.Series) -> pl.Series:
    """Return a column of texts with true and false as 1 and 0; any other as it is."""
    if column.dtype != pl.String or not len(column) or str(column[0]).lower() not in ("true", "false"):
        return column
    return column.str.to_lowercase().replace({"true": "1", "false": "0"})


def _seconds(frame: pl.DataFrame, time_format: str | None) -> NDArray[np.float64]:
    """Return numbers as they are, and dates as seconds since 1970, in UTC where they name no zone."""
    column = frame["time"]
    if column.dtype == pl.String:
        if time_format is None and _is_number(column[0]):
            return _numbers(frame, "time")
        problem = "which is neither a number nor an ISO date (name its format with time_format=, --time-format)"
        if re.match(_ISO_DATE, column[0] or ""):
            problem = "which is no ISO date, as other rows have"
        if time_format is None:  # polars would also guess whether 03/04 is in March or in April
            _refuse(frame, ~column.str.contains(_ISO_DATE).fill_null(False), "time", problem)
            column = column.str.replace(" UTC$", "Z")
        try:
            column = column.str.to_datetime(time_format, strict=False, time_unit="us")
        except pl.exceptions.PolarsError:
            raise BadCellError(frame["row"][0], "time", problem) from None
    if column.dtype in (pl.Date, pl.Datetime):
        _refuse(frame, column.is_null(), "time", "which is no date that is ISO or as time_format says (--time-format)")
        return column.dt.epoch("us").to_numpy() / 1e6
    if column.dtype.is_temporal():
        raise BadCellError(frame["row"][0], "time", "which is no moment in time")
    return _numbers(frame, "time")


def _is_number(text: str | None) -> bool:
    try:
        float(text or "")
    except ValueError:
        return False
    return True
