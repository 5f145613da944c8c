import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spherec.data.read import read_events
from spherec.data.read.formats import Reading
from spherec.errors import DataError

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
OTHERS = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('ab{"', max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2),
    max_leaves=4,
)
SIZES = st.integers(1, 60) | st.just(1 << 20)


def lines(*objects: object) -> str:
    return "".join(json.dumps(one) + "\n" for one in objects)


@pytest.mark.parametrize(("users", "items"), [(NUMBERS, WORDS), (WORDS, NUMBERS)], ids=["int-str", "str-int"])
@settings(max_examples=40)
@given(data=st.data(), size=SIZES, suffix=st.sampled_from(["jsonl", "ndjson", "json", "JSONL.gz", "json.gz"]))
def test_ids_come_back_with_their_type_whatever_else_is_in_the_objects(
    write, rows, blocks_of, users, items, data, size, suffix
):
    pairs = data.draw(st.lists(st.tuples(users, items), min_size=1, max_size=6))
    ascii_only = data.draw(st.booleans())
    text = ""
    for user, item in pairs:
        record = {"user": user, "item": item} | data.draw(st.dictionaries(st.sampled_from("pq"), OTHERS))
        keys = data.draw(st.permutations(list(record)))
        text += json.dumps({key: record[key] for key in keys}, ensure_ascii=ascii_only)
        text += data.draw(st.sampled_from(["\n", "\r\n", "\n\n", "\n  \n"]))
    with blocks_of(size):
        assert rows(write(f"a.{suffix}", text)) == pairs


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 10**30])
def test_a_number_beyond_64_bits_is_refused_with_the_line(write, rows, number):
    path = write("a.jsonl", lines({"user": 1, "item": "x"}, {"user": number, "item": "y"}))
    with pytest.raises(DataError, match=rf"a\.jsonl, line 2: .*{number}.* over 64 bits"):
        rows(path)


@pytest.mark.parametrize("users", [(7, "x"), (7, 1.5), (7, True)], ids=json.dumps)
@pytest.mark.parametrize("size", [1, 40, 1 << 20])
def test_ids_of_two_types_are_refused_with_the_line_of_the_second(write, rows, blocks_of, users, size):
    path = write("a.jsonl", lines(*({"user": user, "item": 1} for user in users)))
    with blocks_of(size), pytest.raises(DataError, match=r"a\.jsonl, line 2: 'user' is .*; (make|mend)"):
        rows(path)


def test_the_first_id_says_the_type(write, rows):
    path = write("a.jsonl", lines({"user": None, "item": 1}, {"user": 7, "item": 2}))
    assert rows(path, missing="drop") == [(7, 2)]


def test_numbers_after_strings_are_read_as_strings(write, rows):
    path = write("a.jsonl", lines({"user": "7", "item": 1}, {"user": 7, "item": 2}))
    assert rows(path) == [("7", 1), ("7", 2)]


@pytest.mark.parametrize(
    "line", ['{"item": 3}', '{"user": null, "item": 3}', '{"user": 3}', '{"user": 3, "item": null}']
)
@pytest.mark.parametrize("size", [1, 40, 1 << 20])
def test_missing_keys_are_refused_with_the_line_or_dropped_and_counted(write, rows, blocks_of, line, size):
    path = write("a.jsonl", lines({"user": 1, "item": 2}) + "\n" + line + "\n" + lines({"user": 5, "item": 6}))
    with blocks_of(size):
        with pytest.raises(DataError, match=r"a\.jsonl, line 3: column '(user|item)' is None"):
            rows(path)
        events = read_events(path, Reading(missing="drop"))
    assert events.user_ids.tolist() == [1, 5]
    assert events.steps[0].name == "read, without 1 rows that have no user or item"


@pytest.mark.parametrize(
    "bad", ["{", '{"user": 1, "item"', "hello", "[1, 2]", "5", '"x"', "{'user': 1, 'item': 2}", '{"user": 1} x', "null"]
)
@pytest.mark.parametrize("size", [1, 40, 1 << 20])
def test_a_line_that_is_no_object_is_named(write, rows, blocks_of, bad, size):
    path = write("a.jsonl", lines({"user": 1, "item": 2}) * 3 + "\n" + bad + "\n" + lines({"user": 1, "item": 2}))
    with blocks_of(size), pytest.raises(DataError, match=r"a\.jsonl, line 5: .* is not a JSON object; ") as failure:
        rows(path)
    assert "\n" not in str(failure.value)


def test_nesting_too_deep_to_be_read_is_refused_with_the_line(write, rows):
    path = write("a.jsonl", '{"user": 1, "item": 2, "x": ' + "[" * 20_000 + "]" * 20_000 + "}\n")
    with pytest.raises(DataError, match=r"a\.jsonl, line 1: ") as failure:
        rows(path)
    assert len(str(failure.value)) < 400


@pytest.mark.parametrize("nested", [{"id": 1}, ["a", "b"], True], ids=json.dumps)
@pytest.mark.parametrize("line", [1, 2])
def test_what_is_no_id_is_refused_though_a_string_could_be_made_of_it(write, rows, nested, line):
    users = ["u", "u"]
    users[line - 1] = nested
    path = write("a.jsonl", lines(*({"user": user, "item": "i"} for user in users)))
    with pytest.raises(DataError, match=rf"a\.jsonl, line {line}: 'user' is .*, which is no id; "):
        rows(path)


@pytest.mark.parametrize("user", ["[live]", "{x}", "true"])
def test_strings_that_look_like_json_are_ids(write, rows, user):
    assert rows(write("a.jsonl", lines({"user": user, "item": "i"}))) == [(user, "i")]


@pytest.mark.parametrize(("users", "ids"), [("1.0 7 2e2", [1, 7, 200]), ('"a\\u0000" "a"', ["a\0", "a"])])
def test_ids_are_whole_numbers_or_texts(write, rows, users, ids):
    path = write("a.jsonl", "".join(f'{{"user": {user}, "item": "i"}}\n' for user in users.split()))
    assert [user for user, _ in rows(path)] == ids


ROUNDED = ["9007199254740993.0", "1.0 9007199254740993", "1.5", '1.0 "a"']  # by whoever reads them
HALVES = ['"\\ud83d" "\\ud83e"', '"u" "a\\udc00b"']  # polars makes zeros of them


@pytest.mark.parametrize("users", [*ROUNDED, *HALVES])
def test_ids_that_would_be_merged_are_refused(write, rows, users):
    with pytest.raises(DataError, match=r"a\.jsonl, line \d: "):
        rows(write("a.jsonl", "".join(f'{{"user": {user}, "item": "i"}}\n' for user in users.split())))


@pytest.mark.parametrize("text", ["\\ud83d\\ude00", "\\\\ud800", "\\\\\\ud83d\\ude00"])
def test_whole_characters_and_escaped_backslashes_are_kept(write, rows, text):
    path = write("a.jsonl", f'{{"user": "{text}", "item": "i", "text": "\\ud800"}}\n')
    assert rows(path) == [(json.loads(f'"{text}"'), "i")]
