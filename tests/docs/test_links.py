"""Links between the pages of the repository lead somewhere. Sphinx checks those of the site; these are all of them."""

import re
import tomllib

import pytest

from tests.docs.blocks import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("results/**/*.md")])
PAGES = [page for page in PAGES if "_build" not in page.parts]


def anchors(text: str) -> set[str]:
    """The anchors that GitHub and MyST give to headings."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        assert place.exists(), target
        if anchor:
            assert anchor in anchors(place.read_text()), target


def test_what_is_said_to_be_installed_can_be_had():
    """The package comes from a checkout, not from an index, and every extra that is named exists."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for place in [*PAGES, *(ROOT / "src").rglob("*.py")]:
        for command in re.findall(r"pip install ([^`\n#]+)", place.read_text()):
            assert not re.search(r"(?<!\w)spherec(?![.\w])", command), place
            assert {
                name for named in re.findall(r"\.\[([\w,]+)\]", command) for name in named.split(",")
            } <= extras.keys()
