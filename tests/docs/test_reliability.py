"""The page on reliability names tests that exist, and every target of `make fuzz`."""

import re

from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs/reliability.md").read_text()


def test_every_test_on_the_page_exists():
    written = "\n".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    known = set(re.findall(r"^\s*def (test_\w+)", written, re.MULTILINE))
    files = {file.relative_to(ROOT).as_posix() for file in (ROOT / "tests").rglob("*.py")}
    assert {name for name in re.findall(r"`(test_\w+)`", PAGE) if name not in known} == set()
    assert {name for name in re.findall(r"`(tests/[\w/]+\.py)`", PAGE) if name not in files} == set()


def test_every_fault_has_a_number():
    assert [int(number) for number in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)] == list(range(1, 31))


def test_every_target_is_on_the_page():
    targets = (ROOT / "tests/fuzz/targets.py").read_text().partition("TARGETS = {")[2]
    assert {
        name for name in re.findall(r'^    "([\w-]+)": Target', targets, re.MULTILINE) if f"`{name}`" not in PAGE
    } == set()
