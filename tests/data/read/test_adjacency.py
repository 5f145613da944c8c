import pytest
from hypothesis import given
from hypothesis import strategies as st

WORD = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=4)
GAP = st.sampled_from([" ", "  ", "\t", " \t "])
SIZES = st.integers(1, 60) | st.just(1 << 20)


@given(
    lists=st.lists(st.lists(WORD, max_size=4), min_size=1, max_size=6),
    gap=GAP,
    end=st.sampled_from(["\n", "\r\n", " \n"]),
    size=SIZES,
    counted=st.booleans(),
    suffix=st.sampled_from(["", ".gz"]),
)
def test_every_word_after_the_first_is_an_item_of_the_lines_user(
    write, rows, blocks_of, lists, gap, end, size, counted, suffix
):
    lists = [*lists, ["last"]]  # so that there is a row at all
    heads = [str(len(items)) if counted else f"u{n}" for n, items in enumerate(lists)]
    users = [str(n) for n in range(len(lists))] if counted else heads
    path = write(
        f"a.txt{suffix}", "".join(gap.join([head, *items]) + end for head, items in zip(heads, lists, strict=True))
    )
    with blocks_of(size):
        found = rows(path, format="citeulike" if counted else "adjacency")
    assert found == [(user, item) for user, items in zip(users, lists, strict=True) for item in items]


@pytest.mark.parametrize("odd", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\r"])
def test_only_a_line_feed_ends_a_line(write, rows, odd):
    path = write("users.dat", f"2 10{odd} 11\n1 12\n")
    assert {user for user, _ in rows(path, format="citeulike")} == {"0", "1"}
