import gzip

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from spherec.data.read import streaming
from spherec.data.read.streaming import first_record, read_blocks
from spherec.errors import DataError

TEXT = st.text(
    st.sampled_from('ab,"\n\r é日') | st.characters(exclude_characters="\0\ufeff", exclude_categories=["Cs"])
)
SIZES = st.integers(1, 40) | st.just(1 << 20)


@given(text=TEXT, size=SIZES, quote=st.sampled_from([b"", b'"']), suffix=st.sampled_from(["txt", "txt.gz"]))
@example(text='a\n"b\n\n"\nc', size=1, quote=b'"', suffix="txt")
def test_blocks_are_the_text_cut_at_record_ends_with_the_number_of_their_first_line(write, text, size, quote, suffix):
    raw = text.encode()
    assume(raw.strip())
    parts = list(read_blocks(write(f"a.{suffix}", raw), quote=quote, block_bytes=size))
    joined = b"".join(part.text for part in parts)
    assert raw.startswith(joined)
    assert not raw[len(joined) :].strip()  # blanks after the last line break are no record
    before = b""
    for part in parts:
        assert part.text
        assert part.line == 1 + before.count(b"\n")
        before += part.text
        if part is not parts[-1]:
            assert before.endswith(b"\n")
            assert not quote or before.count(quote) % 2 == 0


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "UTF8", "latin-1", "cp1252", "utf-16", "utf-16-be", "utf-32"]
)
@given(text=st.text(st.sampled_from('az,"\n éß\xa0')), size=SIZES)
def test_every_encoding_comes_out_as_utf8_at_any_block_size(write, encoding, text, size):
    assume(text.strip())
    parts = read_blocks(write("a.txt.gz", text, encoding), encoding=encoding, block_bytes=size)
    assert b"".join(part.text for part in parts).decode().rstrip() == text.rstrip()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 1 << 20])
def test_a_byte_order_mark_is_no_text(write, size):
    parts = read_blocks(write("a.txt", "\ufeffuser\n\ufeffitem\n"), block_bytes=size)
    assert b"".join(part.text for part in parts).decode() == "user\n\ufeffitem\n"


@given(text=TEXT, size=SIZES, suffix=st.sampled_from(["txt", "txt.gz"]))
def test_progress_rises_to_the_size_of_the_file(write, text, size, suffix):
    assume(text.encode().strip())
    path = write(f"a.{suffix}", text)
    seen = []
    for _ in read_blocks(path, block_bytes=size, progress=lambda *told: seen.append(told)):
        pass
    total = path.stat().st_size
    assert seen[-1] == (total, total)
    assert seen == sorted(seen)
    assert {of for _, of in seen} == {total}


def test_gzip_members_written_one_after_the_other_are_one_text(write):
    path = write("a.txt", gzip.compress(b"a\nb") + gzip.compress(b"c\n"))
    assert [part.text for part in read_blocks(path)] == [b"a\nbc\n"]


def test_gzip_is_told_by_content_not_by_name(write):
    assert next(read_blocks(write("a.csv", gzip.compress(b"a\n")))).text == b"a\n"


def test_a_record_that_never_ends_is_refused_before_memory_is_full(write, monkeypatch):
    monkeypatch.setattr(streaming, "_LONGEST_QUOTED_RECORD", 100)
    path = write("a.csv", 'a\nb,"c\n' + "d\n" * 100)
    with pytest.raises(DataError, match=r"a\.csv, line 2: .*close its quote"):
        list(read_blocks(path, quote=b'"', block_bytes=10))


@given(text=TEXT, quote=st.sampled_from([b"", b'"']), suffix=st.sampled_from(["txt", "txt.gz"]))
@example(text='\n\r\n"a\n\nb"\nc\n', quote=b'"', suffix="txt")
@example(text='"a\nb', quote=b'"', suffix="txt")
def test_the_first_record_is_the_first_that_is_not_empty(write, text, quote, suffix):
    raw = text.encode()
    assume(raw.strip())
    first = first_record(write(f"a.{suffix}", raw), quote=quote)
    begin = len(raw) - len(raw.lstrip(b"\r\n"))
    assert first.line == 1 + raw.count(b"\n", 0, begin)
    assert raw[begin:].startswith(first.text)
    rest = raw[begin + len(first.text) :]
    inside = first.text[:-1]
    for end in (place for place in range(len(inside)) if inside[place : place + 1] == b"\n"):
        assert quote
        assert inside.count(quote, 0, end) % 2  # no record ends earlier
    assert not rest or (first.text.endswith(b"\n") and not (quote and first.text.count(quote) % 2))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'a,"b\n' + b"c\n" * (1 << 20), r"line 1: a record without end; close its quote"),
        (b"\xc3\xa9" * (1 << 20), r"line 1: a record without end"),
        (b"\n\nx" + b"\0" * (1 << 21), r"line 3: a zero byte"),
        (b"\n\nx" + b"\xff" * (1 << 21), r"line 3: byte 0xff is not UTF-8"),
    ],
    ids=["quote", "line", "zeros", "not UTF-8"],
)
def test_the_search_for_the_first_record_ends_after_a_megabyte(write, content, problem, monkeypatch):
    opened = []
    real = streaming._unpack

    def unpack(path, raw, max_unpacked=None):
        opened.append(raw)
        return real(path, raw, max_unpacked)

    monkeypatch.setattr(streaming, "_unpack", unpack)
    monkeypatch.setattr(streaming, "_check_text", seen := Seen(streaming._check_text))
    with pytest.raises(DataError, match=problem):
        first_record(write("a.csv", content), quote=b'"')
    assert len(opened) == 1
    assert seen.longest < (1 << 20) + (1 << 17)


class Seen:
    """A function, and the longest text that it was given."""

    def __init__(self, function):
        self.function, self.longest = function, 0

    def __call__(self, path, text, *arguments, **options):
        self.longest = max(self.longest, len(text))
        return self.function(path, text, *arguments, **options)
