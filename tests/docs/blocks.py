"""Fenced code blocks of a page, as they are executed."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n)?^(?P<ticks>```+)(?P<language>\w+)\n(?P<body>.*?)^(?P=ticks)$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    language: str
    text: str
    line: int
    "The line of the page on which the text begins."
    not_run: str | None
    "The reason why it is not executed."


def blocks(path: Path) -> list[Block]:
    """Return the fenced blocks of a page that name a language, in order."""
    text = path.read_text()
    return [
        Block(match["language"], match["body"], text.count("\n", 0, match.start("body")) + 1, match["reason"])
        for match in _FENCE.finditer(text)
    ]


def commands(block: Block) -> list[str]:
    """Return the commands of a shell block, one a line, without comments."""
    joined = block.text.replace("\\\n", " ")
    lines = (re.sub(r"\s+#.*|^#.*", "", line).strip() for line in joined.splitlines())
    return [command.strip() for line in lines for command in line.split("&&") if command.strip()]
