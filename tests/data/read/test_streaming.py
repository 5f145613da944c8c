import gzip

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from spherec.data.read import streaming
from spherec.data.read.formats import Reading
from spherec.data.read.streaming import read_blocks
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
    parts = list(read_blocks(write(f"a.{suffix}", raw), Reading(), quote=quote, block_bytes=size))
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
    parts = read_blocks(write("a.txt.gz", text, encoding), Reading(encoding=encoding), block_bytes=size)
    assert b"".join(part.text for part in parts).decode().rstrip() == text.rstrip()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 1 << 20])
def test_a_byte_order_mark_is_no_text(write, size):
    parts = read_blocks(write("a.txt", "\ufeffuser\n\ufeffitem\n"), Reading(), block_bytes=size)
    assert b"".join(part.text for part in parts).decode() == "user\nitem\n"


@given(text=TEXT, size=SIZES, suffix=st.sampled_from(["txt", "txt.gz"]))
def test_progress_rises_to_the_size_of_the_file(write, text, size, suffix):
    assume(text.encode().strip())
    path = write(f"a.{suffix}", text)
    seen = []
    for _ in read_blocks(path, Reading(progress=lambda *told: seen.append(told)), block_bytes=size):
        pass
    total = path.stat().st_size
    assert seen[-1] == (total, total)
    assert seen == sorted(seen)
    assert {of for _, of in seen} == {total}


def test_gzip_members_written_one_after_the_other_are_one_text(write):
    path = write("a.txt", gzip.compress(b"a\nb") + gzip.compress(b"c\n"))
    assert [part.text for part in read_blocks(path, Reading())] == [b"a\nbc\n"]


def test_a_record_that_never_ends_is_refused_before_memory_is_full(write, monkeypatch):
    monkeypatch.setattr(streaming, "_LONGEST_RECORD", 100)
    path = write("a.csv", 'a\nb,"c\n' + "d\n" * 100)
    with pytest.raises(DataError, match=r"a\.csv, line 2: a record"):
        list(read_blocks(path, Reading(), quote=b'"', block_bytes=10))
