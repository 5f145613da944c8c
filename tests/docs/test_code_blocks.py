"""The code of the README and of the site runs: the blocks of a page in order, in one namespace, in an empty folder."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer

import spherec
from spherec.cli import app, main
from spherec.training import Training
from tests.docs.blocks import ROOT, blocks, commands

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/how-to").glob("*.md")])
HOSTED = {"in-lenskit.md", "in-rectools.md"}
"Pages for other libraries, run by tests/adapters on all of the data."
WITH_PYTHON = [
    page for page in PAGES if page.name not in HOSTED and any(block.language == "python" for block in blocks(page))
]
WITH_SHELL = [page for page in PAGES if any(block.language in ("sh", "bash") for block in blocks(page))]
SHELL_IS_RUN = {"tutorial.md", "a-day-in-production.md"}
NOT_RUN_AT_MOST = 4


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def small_books() -> spherec.Interactions:
    """A hundredth of Book-Crossing, with the reader and the books that the pages ask for."""
    data = spherec.datasets.book_crossing()
    reader = int(data.user_ids.index_of(["247752"])[0])
    shown = data.item_ids.index_of(["0345339703", "0439064872"])
    fans = {int(user) for user in range(data.n_users) if np.isin(shown, data.items_of(user)).any()}
    users = sorted({reader} | set(sorted(fans)[:30]) | set(range(0, data.n_users, 120)))
    pairs = [(data.user_ids[user], data.item_ids[int(item)]) for user in users for item in data.items_of(user)[:40]]
    pairs += [(data.user_ids[user], "0345339703") for user in sorted(fans)[:30]]
    pairs += [(data.user_ids[user], "0439064872") for user in sorted(fans)[:30]]
    pairs = sorted(set(pairs))
    names = dict(zip(data.item_ids, data.item_names or [], strict=False))
    small = spherec.Interactions.from_pairs([user for user, _ in pairs], [item for _, item in pairs])
    return small.with_item_names({item: name for item, name in names.items() if name})


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path, small_books):
    """Let pages that train on Book-Crossing train on a part of it, for two epochs where they name no number."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(spherec.datasets, "book_crossing", lambda: small_books)
    real = Training.plan

    def short(self: Training, pairs: int):
        plan = real(self, pairs)
        return plan if self.epochs else plan._replace(epochs=2, validate_every=1, steps=plan.steps // plan.epochs * 2)

    monkeypatch.setattr(Training, "plan", short)


def masked(text: str) -> str:
    """Printed text with its numbers masked: the last digits differ from one processor to the next."""
    return re.sub(r"[-+]?\d[\d.,]*", "0", re.sub(r"[ ─]+", " ", text)).strip()


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
@pytest.mark.filterwarnings("default")
def test_python_blocks_run(page):
    with contextlib.ExitStack() as servers:
        run_blocks(page, servers)


def run_blocks(page, servers=None):
    """Run the blocks of a page in order; where it starts a server on port 8000, one is started on another port."""
    namespace = {"__name__": "__main__"}
    printed, address = None, None
    for block in blocks(page):
        if page.name == "serve.md" and "spherec serve books.spherec" in commands(block):
            pytest.importorskip("fastapi", reason="needs the extra serve")
            address = servers.enter_context(serve_in_thread("books.spherec"))
            servers.callback(lambda: namespace["server"].close())
        if block.language == "python" and not block.not_run:
            code = "\n" * (block.line - 1) + block.text.replace("http://127.0.0.1:8000", address or "")
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(code, str(page), "exec"), namespace)
            printed = out.getvalue()
        elif block.language == "sh" and page.name in SHELL_IS_RUN and not block.not_run:
            printed = "".join(run(command) for command in commands(block))
        elif block.language == "bash" and page.name in SHELL_IS_RUN:
            path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # where the program is
            subprocess.run(["bash", "-c", block.text], check=True, env={**os.environ, "PATH": path})
        elif block.language == "text" and printed is not None:
            assert masked(printed) == masked(block.text), f"{page.name}, line {block.line}: it printed\n{printed}"
            printed = None


def serve_in_thread(model):
    """Return the address of a server, as a context."""
    from spherec.serve import ServeOptions
    from tests.serve.running import in_thread

    return in_thread(ServeOptions(Path(model).resolve(), log_requests=False))


def run(command: str) -> str:
    program, *arguments = shlex.split(command)
    assert program == "spherec", command
    with contextlib.redirect_stdout(io.StringIO()) as out, pytest.raises(SystemExit) as ended:
        main(arguments)
    assert not ended.value.code, command
    return out.getvalue()


@pytest.mark.parametrize("page", WITH_SHELL, ids=name_of)
def test_commands_of_shell_blocks_exist(page):
    """Every subcommand and every option that a page shows is one that the program has."""
    for block in blocks(page):
        if block.language not in ("sh", "bash"):
            continue
        for line in commands(block):
            words = shlex.split(line)
            if words[:1] != ["spherec"]:
                continue
            command, rest = typer.main.get_command(app), words[1:]
            while hasattr(command, "commands"):
                assert rest, line
                assert rest[0] in command.commands, f"{page.name}: there is no command {rest[0]} in: {line}"
                _, command, rest = command.resolve_command(None, rest)
            known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
            options = {word.split("=")[0] for word in rest if re.match(r"--?[a-zA-Z]", word)}
            assert options <= known | {"--help"}, f"{page.name}: {options - known} in: {line}"


def test_few_blocks_are_not_run():
    skipped = [
        f"{name_of(page)}:{block.line}: {block.not_run}"
        for page in WITH_PYTHON
        for block in blocks(page)
        if block.not_run
    ]
    assert len(skipped) <= NOT_RUN_AT_MOST, "\n".join(skipped)


def test_the_pages_that_must_run_do():
    own = {f"docs/how-to/own-{part}.md" for part in ("metric", "sampler", "loss", "baseline", "export")}
    wanted = {"README.md", "docs/tutorial.md", "docs/indexes.md", "docs/how-to/coming-from.md"} | own
    assert wanted <= {name_of(page) for page in WITH_PYTHON}


@pytest.mark.parametrize("page", sorted((ROOT / "docs/how-to").glob("own-*.md")), ids=name_of)
def test_a_part_of_your_own_takes_at_most_30_lines(page):
    for block in blocks(page):
        if block.language == "python":
            assert block.text.count("\n") <= 30
