"""Text files, plain or gzipped, as blocks of whole lines in UTF-8: the one place that opens raw text."""

import codecs
import gzip
import os
import zlib
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from spherec.data.reading import Progress
from spherec.errors import ArgumentError, DataError

_BLOCK_BYTES = 1 << 24
_LONGEST_RECORD = 1 << 28  # a record that has not ended by then is an unclosed quote, or no text at all
_NO_TEXT = {
    b"PK\x03\x04": "a zip archive; unpack it (an Excel workbook: save it as CSV; a prepared file: it is damaged)",
    b"PAR1": "a Parquet file; read it with format='parquet' (--format parquet)",
    b"BZh": "packed by bzip2; unpack it, or pack it with gzip",
    b"\xfd7zX": "packed by xz; unpack it, or pack it with gzip",
    b"\x28\xb5\x2f\xfd": "packed by zstd; unpack it, or pack it with gzip",
}


@dataclass(frozen=True)
class Block:
    """Whole records of a text file."""

    text: bytes
    "UTF-8."
    line: int
    "Number of its first line in the file, from 1."
    position: int = 0
    "How many bytes of the file were read for it and those before."


def read_blocks(
    path: Path,
    *,
    encoding: str = "utf-8",
    quote: bytes = b"",
    progress: Progress | None = None,
    block_bytes: int = _BLOCK_BYTES,
) -> Iterator[Block]:
    """The file, block by block. A line break between two `quote` characters does not end a record."""
    refuse_unreadable(path)
    total = os.path.getsize(path)
    with closing(_one_ahead(_blocks(path, encoding, quote, block_bytes))) as blocks:
        for block in blocks:
            if progress is not None:
                progress(block.position, total)
            yield block
    if progress is not None:
        progress(total, total)


def _one_ahead(blocks: Iterator[Block]) -> Generator[Block]:
    """The same blocks, each read and unpacked in another thread while the caller works on the one before."""
    reader = ThreadPoolExecutor(max_workers=1)
    try:
        coming = reader.submit(next, blocks, None)
        while (block := coming.result()) is not None:
            coming = reader.submit(next, blocks, None)
            yield block
    finally:
        reader.shutdown(wait=False, cancel_futures=True)


def _blocks(path: Path, encoding: str, quote: bytes, block_bytes: int) -> Iterator[Block]:
    rest, line, is_blank = b"", 1, True
    with open(path, "rb") as raw:
        for chunk in _decoded(path, _unpacked(path, raw), encoding, block_bytes):
            rest += chunk
            end = _last_record_end(rest, quote)
            if end:
                text, rest = rest[:end], rest[end:]
                block = _checked(path, text, line, raw.tell())
                line += text.count(b"\n")
                is_blank = is_blank and block.text.isspace()
                yield block
            elif len(rest) > _LONGEST_RECORD:
                raise DataError(f"{path}, line {line}: a record without end; close its quote, or set another separator")
        if line == 1:
            rest = rest.removeprefix(codecs.BOM_UTF8)
        if rest.strip():
            yield _checked(path, rest, line, raw.tell())
        elif is_blank:
            raise DataError(f"{path} holds no text; give a file with events")


def first_record(path: Path, *, encoding: str = "utf-8", quote: bytes = b"") -> Block:
    """The first line that is not blank, or the first record where its quotes span lines."""
    for block in read_blocks(path, encoding=encoding, quote=quote, block_bytes=1 << 16):
        text = block.text.lstrip(b"\r\n")
        if text and not text.isspace():
            line = block.line + block.text.count(b"\n", 0, len(block.text) - len(text))
            end = text.find(b"\n") + 1 or len(text)
            while quote and text.count(quote, 0, end) % 2 and end < len(text):
                end = text.find(b"\n", end) + 1 or len(text)
            return Block(text[:end], line)
    raise AssertionError("read_blocks refuses a file without text")


def refuse_unreadable(path: Path) -> None:
    """Raise a `DataError` for a path that is not a file that can be read."""
    if path.is_dir():
        raise DataError(f"{path} is a folder; name the file in it")
    if path.exists() and not path.is_file():
        raise DataError(f"{path} is a pipe or a device; write its content to a file first")
    try:
        path.open("rb").close()
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', error)}; check the path") from None


def _unpacked(path: Path, raw: IO[bytes]) -> IO[bytes]:
    magic = raw.read(4)
    raw.seek(0)
    if not magic:
        raise DataError(f"{path} is empty (0 bytes); give a file with events")
    for start, told in _NO_TEXT.items():
        if magic.startswith(start):
            raise DataError(f"{path} is {told}")
    return gzip.GzipFile(fileobj=raw) if magic.startswith(b"\x1f\x8b") else raw  # type: ignore[return-value]


def _decoded(path: Path, file: IO[bytes], encoding: str, block_bytes: int) -> Iterator[bytes]:
    """The file's content in UTF-8."""
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


def _checked(path: Path, block: bytes, line: int, position: int) -> Block:
    if line == 1:
        block = block.removeprefix(codecs.BOM_UTF8)
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
    return Block(block, line, position)
