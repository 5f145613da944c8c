"""Text files, plain or gzipped, as blocks of whole records in UTF-8, so that memory stays small."""

import codecs
import gzip
import os
import zlib
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

from spherec.data.input_files import refuse_unreadable
from spherec.data.read.formats import Reading
from spherec.errors import ArgumentError, DataError, EmptyFileError

_BLOCK_BYTES = 1 << 24
_LONGEST_RECORD = 1 << 26
_SAMPLE_BYTES = 1 << 20  # by which a file is recognised
_NO_TEXT = {
    b"PK\x03\x04": "a zip archive (an Excel workbook, or a matrix, which Interactions.from_matrix takes)",
    b"PAR1": "a Parquet file, which format='parquet' (--format parquet) reads",
    b"\xfd7zX": "packed by xz",
    b"\x28\xb5\x2f\xfd": "packed by zstd",
    **{b"BZh%d1AY&SY" % level: "packed by bzip2" for level in range(1, 10)},
    **{bytes((0x80, version)): "a pickle, which is never read" for version in (2, 3, 4, 5)},
}


class Block(NamedTuple):
    """Whole records of a text file."""

    text: bytes
    "UTF-8."
    line: int
    "Number of its first line in the file, from 1."
    position: int = 0
    "Bytes of the file that were read up to its end."

    @property
    def lines(self) -> list[str]:
        """Its lines, without their ends."""
        return self.text.decode().removesuffix("\n").split("\n")


def read_blocks(
    path: Path, reading: Reading, *, quote: bytes = b"", block_bytes: int = _BLOCK_BYTES
) -> Iterator[Block]:
    """Yield the file, block by block. A line break between two `quote` characters does not end a record."""
    refuse_unreadable(path)
    total = os.path.getsize(path)
    with closing(_read_ahead(_blocks(path, reading.encoding, quote, block_bytes))) as blocks:
        for block in blocks:
            if reading.progress is not None:
                reading.progress(block.position, total)
            yield block
    if reading.progress is not None:
        reading.progress(total, total)


def first_lines(path: Path, *, encoding: str = "utf-8") -> list[str]:
    """Return the whole lines of the first megabyte that are not blank, to recognise the file by; bad bytes replaced."""
    refuse_unreadable(path)
    with open(path, "rb") as raw:
        sample = next(_decode(path, raw, encoding, _SAMPLE_BYTES), b"")
    lines = sample.removeprefix(codecs.BOM_UTF8).decode(errors="replace").split("\n")
    if len(sample) >= _SAMPLE_BYTES and len(lines) > 1:
        lines.pop()  # it may be cut off
    return [line.removesuffix("\r") for line in lines if line.strip()]


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


def _blocks(path: Path, encoding: str, quote: bytes, block_bytes: int) -> Iterator[Block]:
    rest, line, is_blank = b"", 1, True
    with open(path, "rb") as raw:
        for chunk in chain(_decode(path, raw, encoding, block_bytes), [b""]):
            rest += chunk
            end = _last_record_end(rest, quote) if chunk else len(rest)
            block = _check_text(path, Block(rest[:end], line, raw.tell()))
            line, rest = line + rest.count(b"\n", 0, end), rest[end:]
            if block.text.strip() or (chunk and block.text):
                is_blank = is_blank and not block.text.strip()
                yield block
            if len(rest) > _LONGEST_RECORD:
                raise DataError(
                    f"{path}, line {line}: a record of more than {_LONGEST_RECORD >> 20} MB; if it has a quote that "
                    "is not closed, close it, or take quotes for ordinary characters with quotes=False (--no-quotes)"
                )
    if is_blank:
        raise EmptyFileError(f"{path} holds no text; give a file with events")


def _decode(path: Path, raw: BinaryIO, encoding: str, block_bytes: int) -> Iterator[bytes]:
    """Yield the file's content in UTF-8, unpacked."""
    try:
        "x".encode(encoding)
    except (LookupError, ValueError):
        raise ArgumentError(f"encoding must be a text encoding of Python's, got {encoding!r}; try 'latin-1'") from None
    decoder, is_utf8 = codecs.getincrementaldecoder(encoding)(), codecs.lookup(encoding).name == "utf-8"
    begin = raw.read(16)
    raw.seek(0)
    if not begin:
        raise EmptyFileError(f"{path} is empty (0 bytes); give a file with events")
    if described := next((described for magic, described in _NO_TEXT.items() if begin.startswith(magic)), None):
        raise DataError(f"{path} is {described}; unpack it, or write the table as CSV or Parquet")
    file = gzip.GzipFile(fileobj=raw) if begin.startswith(b"\x1f\x8b") else raw
    is_last = False
    while not is_last:
        try:
            chunk = file.read(block_bytes)
            is_last = not chunk
            text = chunk if is_utf8 else decoder.decode(chunk, final=is_last).encode()
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{path} is a damaged or truncated gzip file ({error}); fetch it again") from None
        except UnicodeError as error:
            raise DataError(f"{path} is not {encoding} ({error}); name its encoding") from None
        if text:
            yield text


def _last_record_end(text: bytes, quote: bytes) -> int:
    """Return where the last complete record ends: after the last line break outside quotes; 0 where there is none."""
    end = text.rfind(b"\n") + 1
    is_open = bool(quote) and text.count(quote, 0, end) % 2 == 1
    while end and is_open:
        earlier = text.rfind(b"\n", 0, text.rfind(quote, 0, end)) + 1  # all line breaks after that quote are open, too
        is_open ^= text.count(quote, earlier, end) % 2 == 1
        end = earlier
    return end


def _check_text(path: Path, block: Block) -> Block:
    """Return the block without byte order marks, which begin joined files; a `DataError` if it is not UTF-8."""
    text = block.text.removeprefix(codecs.BOM_UTF8)
    bad, problem = text.find(b"\0"), "a zero byte, so this is not plain text; name its encoding or format"
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError as error:
            bad = error.start
            problem = f"byte 0x{text[bad]:02x} is not UTF-8; name its encoding, such as 'latin-1' or 'utf-16'"
        text = text.replace(b"\n" + codecs.BOM_UTF8, b"\n")
    if bad >= 0:
        line = block.line + text.count(b"\n", 0, bad)
        raise DataError(f"{path}, line {line}: {problem}, with encoding= (--encoding)")
    return block._replace(text=text)
