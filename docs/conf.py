"""Configuration of the documentation site: `make docs` builds it into docs/_build/html, without a network."""

import ast
import importlib
import inspect
import posixpath
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

import spherec

project = "spherec"
author = "the spherec contributors"
release = version = spherec.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "sphinx_design"]
exclude_patterns = ["_build"]
suppress_warnings = ["myst.header"]  # an included page begins at the level at which it was written

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
default_role = "code"

html_theme = "furo"
html_title = "spherec"
html_static_path = ["_static"]
html_css_files = ["spherec.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5f8b", "color-brand-content": "#1f5f8b"},
    "dark_css_variables": {"color-brand-primary": "#8cc4ea", "color-brand-content": "#8cc4ea"},
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

ROOT = Path(__file__).parents[1]
logger = logging.getLogger("spherec.docs")

# Pages of the repository outside docs/, and the page of the site that includes each.
INCLUDED = {
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "README.md": "index",
    "results/book-crossing/table.md": "results/paper",
    "results/book-crossing/two-stage.md": "results/two-stage-variants",
    "results/compare/book-crossing.md": "results/compare-book-crossing",
    "results/compare/citeulike-t.md": "results/compare-citeulike-t",
    "results/compare/gowalla.md": "results/compare-gowalla",
    "results/compare/citeulike-t-999.md": "results/compare-citeulike-t-999",
    "results/compare/lastfm.md": "results/compare-lastfm",
    "results/compare/lastfm-1500.md": "results/compare-lastfm-1500",
    "results/fold-in.md": "results/fold-in",
    "results/diversity.md": "results/diversity",
    "results/gpu-parity.md": "results/gpu-parity",
}

# Modules whose public names (`__all__`, else classes and functions without a leading underscore) must have an entry.
PUBLIC = (
    "spherec",
    "spherec.artifact",
    "spherec.data.splits",
    "spherec.datasets",
    "spherec.errors",
    "spherec.evaluation",
    "spherec.lab",
    "spherec.export",
    "spherec.geometry",
    "spherec.losses",
    "spherec.ranking",
    "spherec.recommender",
    "spherec.sampling",
    "spherec.training",
)


def setup(app: Sphinx) -> None:
    """Connect what this site adds to Sphinx."""
    app.add_html_math_renderer("mathml", (_inline_math, None), (_display_math, None))
    app.connect("source-read", _read_page)
    app.connect("include-read", _read_include)
    app.connect("autodoc-process-docstring", _to_restructured_text, priority=400)
    app.connect("env-check-consistency", _check_everything_public_is_documented)


# Formulas become MathML when the site is built, so that a reader needs neither a script nor a network.


def _inline_math(self: Any, node: nodes.math) -> None:
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _display_math(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


# Pages are written so that their links work in the repository; here they are turned into links within the site.


def _read_page(app: Sphinx, docname: str, content: list[str]) -> None:
    text = _relink(content[0], f"docs/{docname}.md", docname)
    text = re.sub(r"^<!-- api: (.*) -->$", lambda match: _api(match[1].split()), text, flags=re.MULTILINE)
    content[0] = text.replace("<!-- files -->", _map_of_files()) if "<!-- files -->" in text else text


def _read_include(app: Sphinx, path: Path, docname: str, content: list[str]) -> None:
    inside = posixpath.normpath(posixpath.join("docs", path.as_posix()))
    content[0] = _relink(content[0], inside, app.env.docname)  # MyST gives no folder in `docname`


def _relink(text: str, path: str, docname: str) -> str:
    """Rewrite the relative links of the file at `path` of the repository for the page that shows it."""

    def rewrite(match: re.Match[str]) -> str:
        target, hash_, anchor = match[2].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        place = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if place in INCLUDED:
            place = f"docs/{INCLUDED[place]}.md"
        elif not (ROOT / place).exists():
            return match[0]  # Sphinx reports it
        return f"{match[1]}{posixpath.relpath(place, posixpath.dirname(f'docs/{docname}'))}{hash_}{anchor})"

    return re.sub(r"(\]\()([^)\s]+)\)", rewrite, text)


# The reference: `<!-- api: spherec.losses spherec.CML -->` in a page becomes the entries of these modules and names.

_documented: dict[int, str] = {}
_classes: list[type] = []


def _api(names: list[str]) -> str:
    entries = [entry for name in names for entry in _entries(name)]
    return "```{eval-rst}\n" + "\n\n".join(entries) + "\n```"


def _entries(name: str) -> list[str]:
    if inspect.ismodule(found := _find(name)):
        return [entry for each in _public(name) for entry in _entries(f"{name}.{each}")]
    short = name.rpartition(".")[2]
    if short in spherec.__all__ and getattr(spherec, short) is found:
        name = f"spherec.{short}"
    if id(found) in _documented:
        return []
    _documented[id(found)] = name
    if inspect.isclass(found):
        kind = "exception" if issubclass(found, BaseException) else "class"
        inherited = any(base.__module__.startswith("spherec") for base in found.__mro__[1:])
        options = ["members"] + (["inherited-members"] if inherited and kind == "class" else [])
        if any(found in each.__mro__ for each in _classes) and kind == "class":
            options = []  # its methods stand under the class that inherits them
        _classes.append(found)
    else:
        kind, options = ("function", []) if callable(found) and not _is_alias(found) else ("data", ["no-value"])
    return [f".. auto{kind}:: {name}\n" + "".join(f"   :{option}:\n" for option in options)]


def _is_alias(found: object) -> bool:
    return not inspect.isroutine(found)


def _find(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    if not module:
        return importlib.import_module(name)
    try:
        return getattr(_find(module), attribute)
    except AttributeError:
        return importlib.import_module(name)


def _public(name: str) -> list[str]:
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", None)
    if listed is None:
        listed = [
            each
            for each, value in vars(module).items()
            if not each.startswith("_") and getattr(value, "__module__", None) == name
        ]
    return [each for each in listed if not each.startswith("_") and not inspect.ismodule(getattr(module, each))]


def _map_of_files() -> str:
    """Return a table for each folder of the package: its files, and the first sentence of their docstrings."""
    package = ROOT / "src/spherec"
    lines: list[str] = []
    for folder in [package, *sorted(path.parent for path in package.rglob("*/__init__.py"))]:
        lines += ["", f"## {folder.relative_to(package.parent).as_posix()}", "", "| | |", "|---|---|"]
        for path in sorted(folder.glob("*.py")):
            opening = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0].split())
            sentence = re.split(r"(?<=[^.])\.(?: |$)", opening, maxsplit=1)[0].replace("|", "\\|")
            lines.append(f"| `{path.name}` | {sentence} |")
    return "\n".join(lines)


def _check_everything_public_is_documented(app: Sphinx, env: BuildEnvironment) -> None:
    for module in PUBLIC:
        for name in _public(module):
            if id(_find(f"{module}.{name}")) not in _documented:
                logger.warning("%s.%s is public and has no entry in docs/api", module, name)


def _to_restructured_text(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Read docstrings as they are written: formulas indented by four stay as they are, * and | are characters."""
    if what == "data" and "\n".join(lines).strip() == (inspect.getdoc(type(obj)) or ""):
        lines.clear()  # a dict without a docstring of its own has that of all dicts
    made: list[str] = []
    literal = example = False
    for line in lines:
        indented = line.startswith("    ")
        if line and not indented:
            literal = False
            example = line in ("Example:", "Examples:")
        elif indented and not literal and not example and _begins_block(made):
            made += ["::", ""]
            literal = True
        made.append(line if literal else f"    {line}" if example and indented else _escape(line))
        if example and not indented and line:
            made += ["    ::", ""]
    lines[:] = made


def _begins_block(above: list[str]) -> bool:
    """Whether an indented line under these lines is a formula: after an empty line, below text that is not indented."""
    return bool(above) and not above[-1] and not next(filter(None, reversed(above)), " ")[0].isspace()


def _escape(line: str) -> str:
    parts = re.split(r"(``[^`]*``|`[^`]*`)", line)
    return "".join(
        part if part.startswith("`") else re.sub(r"([*|]|(?<=\w)_(?!\w)|:(?=:$))", r"\\\1", part) for part in parts
    )
