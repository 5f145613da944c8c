"""Text files, plain or gzipped, as blocks of whole lines in UTF-8: the one place that opens raw text."""

import codecs
import gzip
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from spherec.data.reading import Progress
from spherec.errors import ArgumentError, DataError

_BLOCK_BYTES = 1 << 25
_LONGEST_RECORD = 1 << 28  # a record that has not ended by then is an unclosed quote, or no text at all


@dataclass(frozen=True)
class Block:
    """Whole records of a text file."""

    text: bytes
    "UTF-8."
    line: int
    "Number of its first line in the file, from 1."


def read_blocks(
    path: Path,
    *,
    encoding: str = "utf-8",
    quote: bytes = b"",
    progress: Progress | None = None,
    block_bytes: int = _BLOCK_BYTES,
) -> Iterator[Block]:
    """The file, block by block. A line break between two `quote` characters does not end a record."""
    total = _size(path)
    rest, line = b"", 1
    with open(path, "rb") as raw:
        for chunk in _decoded(path, _unpacked(raw), encoding, block_bytes):
            rest += chunk
            end = _last_record_end(rest, quote)
            if end:
                block, rest = rest[:end], rest[end:]
                yield _checked(path, block, line)
                line += block.count(b"\n")
            elif len(rest) > _LONGEST_RECORD:
                raise DataError(f"{path}, line {line}: a record without end; close its quote, or set another separator")
            if progress is not None:
                progress(raw.tell(), total)
    if rest.strip():
        yield _checked(path, rest, line)
    elif line == 1:
        raise DataError(f"{path} holds no text; give a file with events")


def first_line(path: Path, encoding: str = "utf-8") -> str:
    """The first line of the file, without its end."""
    block = next(read_blocks(path, encoding=encoding, block_bytes=1 << 16))
    return block.text.partition(b"\n")[0].decode().rstrip("\r")


def _size(path: Path) -> int:
    """The file's size, after a look at whether it can be read at all."""
    if path.is_dir():
        raise DataError(f"{path} is a folder; name the file in it")
    try:
        with open(path, "rb") as raw:
            magic = raw.read(4)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}; check the path") from None
    if not magic:
        raise DataError(f"{path} is empty (0 bytes); give a file with events")
    if magic == b"PK\x03\x04":
        raise DataError(f"{path} is a zip archive; unpack it and give the file inside")
    return os.path.getsize(path)


def _unpacked(raw: IO[bytes]) -> IO[bytes]:
    gzipped = raw.read(2) == b"\x1f\x8b"
    raw.seek(0)
    return gzip.GzipFile(fileobj=raw) if gzipped else raw  # type: ignore[return-value]


def _decoded(path: Path, file: IO[bytes], encoding: str, block_bytes: int) -> Iterator[bytes]:
    """The file's content in UTF-8, without a byte order mark."""
    try:
        decoder = codecs.getincrementaldecoder(encoding)()
    except LookupError:
        raise ArgumentError(f"encoding must be one that Python knows, got {encoding!r}; try 'latin-1'") from None
    is_utf8 = codecs.lookup(encoding).name == "utf-8"
    first = True
    while True:
        try:
            chunk = file.read(block_bytes)
            text = chunk if is_utf8 else decoder.decode(chunk, final=not chunk).encode()
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{path} is a damaged or truncated gzip file ({error}); fetch it again") from None
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not {encoding}: {error.reason}; name its encoding") from None
        if first:
            text, first = text.removeprefix(codecs.BOM_UTF8), False
        if text:
            yield text
        if not chunk:
            return


def _last_record_end(text: bytes, quote: bytes) -> int:
    """Where the last complete record ends: after the last line break outside quotes; 0 where there is none."""
    end = text.rfind(b"\n") + 1
    if not quote:
        return end
    open_quote = text.count(quote, 0, end) % 2 == 1
    while end and open_quote:
        earlier = text.rfind(b"\n", 0, end - 1) + 1
        open_quote ^= text.count(quote, earlier, end) % 2 == 1
        end = earlier
    return end


def _checked(path: Path, block: bytes, line: int) -> Block:
    if not block.isascii():
        try:
            block.decode()
        except UnicodeDecodeError as error:
            at = line + block.count(b"\n", 0, error.start)
            raise DataError(
                f"{path}, line {at}: byte 0x{block[error.start]:02x} is not UTF-8; name the file's encoding, "
                "such as 'latin-1' or 'utf-16'"
            ) from None
    if b"\0" in block:
        at = line + block.count(b"\n", 0, block.index(b"\0"))
        raise DataError(f"{path}, line {at}: a zero byte, so this is not plain text; name its encoding or format")
    return Block(block, line)
