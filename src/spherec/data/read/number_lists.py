"""CiteULike's lists of words and tags, as sparse matrices with a row for each item.

    mult.dat      line k is item k: `n word:count word:count …` (LDA-C)           format "word-counts"
    tag-item.dat  line t is tag t: `n item item …`                                format "tag-items"
    item-tag.dat  line k is item k: `n tag tag …`                                 format "item-tags"

Words, tags and items are numbers from 0; as ids, items are texts, as in the events of users.dat.
"""

import re
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from spherec.data.read import recognition, streaming
from spherec.data.read.options import Reading
from spherec.errors import DataError, quote

ListFormat = Literal["word-counts", "tag-items", "item-tags"]
"""Format of a file of lists."""

_MOST_WORDS = 1 << 24  # a larger number of a word or an item is a slip


def recognise_lists(path: Path, lines: Sequence[Sequence[str]]) -> ListFormat | None:
    """Return the format that the words of the first lines show, and the name of the file; None for no lists."""
    if not lines or not all(words[0].isdecimal() for words in lines):
        return None
    entries = [word for words in lines for word in words[1:]]
    if entries and all(map(recognition.WORD_COUNT.fullmatch, entries)):
        return "word-counts"
    if not all(map(str.isdecimal, entries)) or any(int(words[0]) != len(words) - 1 for words in lines):
        return None
    match re.findall("[a-z]+", path.name.lower()):
        case ["tag" | "tags", "tag" | "tags" | "item" | "items", *_]:
            return "tag-items"
        case ["item" | "items", "tag" | "tags" | "item" | "items", *_]:
            return "item-tags"
    raise DataError(
        f"{path}: its lines are COUNT NUMBER NUMBER …, and nothing shows whether a line is a tag or an item; say so "
        "by its name, tag-item.dat or item-tag.dat, or by format='tag-items' or 'item-tags'"
    )


def read_number_lists(path: Path, format: ListFormat, reading: Reading) -> "tuple[sp.csr_array[np.float32], list[str]]":
    """Return a matrix with a row for each item and a column for each word or tag, and the ids of the items."""
    lines, numbers, values, n_lines = _read_entries(path, reading, counts=format == "word-counts")
    if format == "tag-items":
        present, place = np.unique(numbers, return_inverse=True)  # items
        matrix = sp.csr_array((values, (place, lines)), shape=(len(present), n_lines))
        return matrix, [str(number) for number in present.tolist()]
    matrix = sp.csr_array((values, (lines, numbers)), shape=(n_lines, int(numbers.max()) + 1))
    return matrix, [str(number) for number in range(n_lines)]


def _read_entries(path: Path, reading: Reading, *, counts: bool) -> tuple[Any, Any, Any, int]:
    """Return the line, number and count (E,) of each entry of a file of lists, and how many lines it has."""
    lines, numbers, values, n_lines = array("q"), array("q"), array("d"), 0
    for line, words in _split_lines(path, reading):
        n_lines = line
        if not words:
            continue
        if not words[0].isdecimal() or int(words[0]) != len(words) - 1:
            raise DataError(
                f"{path}, line {line}: begins with {quote(words[0])}, but {len(words) - 1} entries follow; mend it"
            )
        for word in words[1:]:
            number, mark, count = word.partition(":")
            is_good = number.isdecimal() and int(number) < _MOST_WORDS and bool(mark) == counts
            if not is_good or (counts and not re.fullmatch(r"\d{1,15}(\.\d{1,15})?", count)):
                wanted = "word:count, both numbers" if counts else "a number"
                raise DataError(f"{path}, line {line}: {quote(word)} is not {wanted} below {_MOST_WORDS:,}; mend it")
            lines.append(line - 1)
            numbers.append(int(number))
            values.append(float(count) if counts else 1.0)
    if not numbers:
        raise DataError(f"{path} has no entries; give a file with words or tags")
    return np.array(lines), np.array(numbers), np.array(values, dtype=np.float32), n_lines


def _split_lines(path: Path, reading: Reading) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line, from 1, and its words."""
    for block in streaming.read_text(path, reading):
        for number, line in enumerate(block.text.decode().removesuffix("\n").split("\n"), start=block.line):
            yield number, line.split()
