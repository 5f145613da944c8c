"""Measure how easily a reader finds their way in the source tree.

    python scripts/house.py                                         print the figures of this tree
    python scripts/house.py --root PATH                             measure another tree
    python scripts/house.py --json > after.json                     print them as JSON
    python scripts/house.py --compare results/house/before.json     print a table of before and after
    python scripts/house.py --fast                                  leave out the executed hops
    python scripts/house.py --write                                 write figures and map into CONTRIBUTING.md

The static figures are read from the syntax trees. The hops are executed: a subprocess trains on 30 users for 2 epochs
and asks for recommendations, with `NUMBA_DISABLE_JIT=1` so that kernels are ordinary functions, and a profiler notes
every function of the package that is called.
"""

import argparse
import ast
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

HERE = Path(__file__).resolve()
USERS, ITEMS, EPOCHS = 30, 200, 2
TRAIN = ["train", "events.csv", "-o", "model.spherec", "--force", "--epochs", str(EPOCHS)]
COMMANDS = {
    "train": TRAIN,
    # Fewer candidates than items, as in a catalogue of the usual size: with the default, stage one takes all 200.
    "step": [*TRAIN, "--set", "sampler.candidates=20", "--batch-size", "32", "--dim", "16"],
    "recommend": ["recommend", "model.spherec", "u3"],  # the last, because `way_to_product` watches to the end
}

# Openings that begin a clause or a prepositional phrase, in which no noun or verb says what the thing is.
HEADLESS = re.compile(
    r"[\W_]*(what|how|of|where|whether|which|who|whom|whose|when|why|as|by|with|for|from|in|on|at|to|into|until|till|after|"
    r"before|so|if|than|without|inside|within|while|because|since|unless|during|among|under)(?![\w'-])",
    re.IGNORECASE,
)
HEADLESS_SENTENCE = re.compile(
    r"(it|they) (is|was|are|were|has|had)\b|(this|these|those|that) and\b|said\b|told\b", re.I
)


# Function names of one word that say what was done instead of what to do.
PARTICIPLE = re.compile(
    r"_*(\w+(?<!e)ed|told|kept|shown|found|written|built|made|drawn|chosen|given|taken|seen|held|known|done|sent)$"
)


class Text(NamedTuple):
    """A docstring or help text and its place."""

    place: str
    "path:line, relative to the package."
    opening: str
    "First line, shortened."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=HERE.parents[1], help="tree to measure; default: this one")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--compare", type=Path, metavar="JSON", help="print a Markdown table with the figures of this file as 'before'"
    )
    parser.add_argument("--fast", action="store_true", help="leave out the executed hops")
    parser.add_argument(
        "--write", action="store_true", help="write the figures and the map of files into CONTRIBUTING.md"
    )
    parser.add_argument("--trace", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.trace:
        print(json.dumps({command: trace(command, arguments.root / "src/spherec") for command in COMMANDS}))
        return
    figures = measure(arguments.root, hops=not arguments.fast)
    if arguments.write:
        page = arguments.root / "CONTRIBUTING.md"
        text = replace_between("figures", "\n".join(figure_table(figures)), page.read_text())
        page.write_text(replace_between("map", f"```\n{draw_map(arguments.root)}\n```", text))
    elif arguments.json:
        print(json.dumps(figures, indent=1))
    elif arguments.compare:
        print(comparison(json.loads(arguments.compare.read_text()), figures))
    else:
        print(report(figures))


def measure(root: Path, *, hops: bool = True) -> dict[str, Any]:
    """Return all figures of a tree as plain data."""
    figures = {"static": static_figures(root)}
    if hops:
        figures |= executed_hops(root)
    return figures


# Figures read from the sources


def static_figures(root: Path) -> dict[str, Any]:
    """Return what the syntax trees of `root`/src/spherec show."""
    package = root / "src/spherec"
    sources = {path.relative_to(package).as_posix(): path.read_text() for path in sorted(package.rglob("*.py"))}
    trees = {name: ast.parse(text) for name, text in sources.items()}
    lengths = sorted(len(text.splitlines()) for text in sources.values())
    functions = [
        (f"{name}:{node.lineno}", node)
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    sizes = sorted(end_of(node) - node.lineno + 1 for _, node in functions)
    arguments = [argument for _, node in functions for argument in arguments_of(node)]
    public = [node for _, node in functions if not node.name.startswith("_")]
    documented = sum(ast.get_docstring(node) is not None for node in public)
    docstrings = [text for name, tree in trees.items() for text in docstrings_of(name, tree)]
    helps = [text for name, tree in trees.items() for text in help_texts_of(name, tree)]
    lines = sum(lengths)
    test_lines = sum(len(path.read_text().splitlines()) for path in (root / "tests").rglob("*.py"))
    any_count = sum(isinstance(n, ast.Name) and n.id == "Any" for tree in trees.values() for n in ast.walk(tree))
    late = [place for name, tree in trees.items() for place in late_imports(name, tree)]
    return {
        "files": len(sources),
        "lines": lines,
        "file_length": {"median": statistics.median(lengths), "p90": p90(lengths), "max": lengths[-1]},
        "files_under_50": sum(length < 50 for length in lengths) / len(lengths),
        "function_length": {"median": statistics.median(sizes), "p90": p90(sizes)},
        "functions_over_40": {
            f"{p} {n.name}": end_of(n) - n.lineno + 1 for p, n in functions if end_of(n) - n.lineno + 1 > 40
        },
        "functions_over_6_parameters": {
            f"{p} {n.name}": len(arguments_of(n)) for p, n in functions if len(arguments_of(n)) > 6
        },
        "arguments_annotated": sum(argument.annotation is not None for argument in arguments) / len(arguments),
        "public_functions_documented": documented / len(public),
        "repeated_names": repeated_names(trees),
        "backend_twins": sorted(repeated_names(trees, twins=True)),
        "participles": [f"{p} {n.name}" for p, n in functions if is_participle(n)],
        "any": any_count,
        "late_imports": late,
        "docstrings": len(docstrings),
        "headless": [text for text in docstrings if is_headless(text.opening)],
        "headless_help": [text for text in helps if is_headless(text.opening)],
        "test_lines": test_lines,
    }


def end_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return node.end_lineno or node.lineno


def p90(values: list[int]) -> int:
    """Return the value that nine tenths of the sorted values do not exceed."""
    return values[int(0.9 * len(values))]


def arguments_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    """Return the parameters of a function without `self` and `cls`."""
    spelled = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    spelled += [argument for argument in (node.args.vararg, node.args.kwarg) if argument]
    return [argument for argument in spelled if argument.arg not in ("self", "cls")]


def docstrings_of(name: str, tree: ast.Module) -> Iterator[Text]:
    """Yield the docstrings of a module, its classes and functions, and of the fields of its classes."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        named = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for before, statement in zip([None, *body], body, strict=False):
            documents = (named and before is None) or isinstance(before, ast.Assign | ast.AnnAssign)
            if documents and (text := string_of(statement)):
                yield Text(f"{name}:{statement.lineno}", text)


def string_of(statement: ast.stmt) -> str | None:
    if (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    ):
        return shortened(statement.value.value)
    return None


def help_texts_of(name: str, tree: ast.Module) -> Iterator[Text]:
    """Yield the texts given as `help=`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if (
                    keyword.arg == "help"
                    and isinstance(keyword.value, ast.Constant)
                    and isinstance(keyword.value.value, str)
                ):
                    yield Text(f"{name}:{keyword.value.lineno}", shortened(keyword.value.value))


def shortened(text: str) -> str:
    line = text.strip().split("\n\n")[0].replace("\n", " ")
    return line if len(line) <= 100 else line[:97] + "…"


def is_headless(opening: str) -> bool:
    """Return whether a text opens with a clause or prepositional phrase instead of a noun phrase or an imperative."""
    return bool(HEADLESS.match(opening) or HEADLESS_SENTENCE.match(opening))


def is_participle(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function is named by a past participle; a property may be."""
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    names = "_" not in node.name.strip("_") and node.name not in ("seed", "need", "feed", "embed")
    return names and bool(PARTICIPLE.match(node.name)) and not decorators & {"property", "cached_property"}


def repeated_names(trees: dict[str, ast.Module], *, twins: bool = False) -> dict[str, list[str]]:
    """Return the public top-level names that several files define, with the files.

    With `twins`, return only the names of one kernel written for several backends; otherwise leave those out.
    """
    places = defaultdict(list)
    for name, tree in trees.items():
        for defined in sorted(set(defined_names(tree.body))):
            if not defined.startswith("_"):
                places[defined].append(name)
    several = {defined: files for defined, files in sorted(places.items()) if len(files) > 1}
    return {defined: files for defined, files in several.items() if are_backend_twins(files) == twins}


def are_backend_twins(files: list[str]) -> bool:
    """Return whether the files are the same kernel for several backends."""
    return all(file.startswith("kernels/") for file in files) and len({Path(file).parent for file in files}) == len(
        files
    )


def defined_names(body: list[ast.stmt]) -> Iterator[str]:
    """Yield what a module's top level defines: functions, classes, constants and type aliases."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.If | ast.Try):
            yield from defined_names(node.body)


def late_imports(name: str, tree: ast.Module) -> Iterator[str]:
    """Yield the imports inside functions."""
    inside = {
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    for node in sorted(inside, key=lambda node: node.lineno):
        yield f"{name}:{node.lineno} {ast.unparse(node)}"


# Hops, executed


def executed_hops(root: Path) -> dict[str, Any]:
    """Run `spherec train` and `spherec recommend` of a tree under a profiler; return what was called."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(root.resolve() / "src"),
        "NUMBA_DISABLE_JIT": "1",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    words = [sys.executable, str(HERE), "--root", str(root.resolve()), "--trace"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "events.csv").write_text(events())
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"a command failed under the profiler:\n{done.stdout}{done.stderr}")
    hops: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return hops


def events() -> str:
    """Return a CSV of 30 users with about 4 of 200 items each, the popular more often."""
    rows = [(u, i) for u in range(USERS) for i in range(ITEMS) if (u * 7919 + i * 104729) % 1000 < 1200 / (i + 10)]
    return "user,item\n" + "".join(f"u{user},i{item}\n" for user, item in rows)


def trace(command: str, package: Path) -> dict[str, Any]:
    """Run a command in this process; return the functions it went through."""
    import polars  # noqa: F401  # these two before the profiler is on, which makes imports slow
    import torch  # noqa: F401

    import spherec.cli  # the measured tree's

    imported = Path(spherec.cli.__file__ or "").resolve()
    assert package.resolve() in imported.parents, f"measures {package}, but {imported} was imported"
    words = COMMANDS[command]
    profile = Profile(package.resolve())
    product = way_to_product(package.resolve()) if command == "recommend" else []
    run(lambda: spherec.cli.main(words), profile)
    if command == "step":
        return profile.step()
    figures = profile.figures()
    if command == "recommend":
        figures |= {"calls_to_product": len(product), "way_to_product": product}
    return figures


def run(call: Callable[[], object], profile: "Profile") -> None:
    """Call with the profiler on, in all threads."""
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        status = call()
    except SystemExit as error:
        status = error.code
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    if status:
        raise SystemExit(f"the command ended with {status}")


COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")  # frames of their own in Python 3.11


class Call(NamedTuple):
    """One function of the package being executed."""

    file: str
    name: str
    code: CodeType


class Profile:
    """A profile function that keeps the package's own frames: which functions, from which, how deep."""

    def __init__(self, package: Path) -> None:
        self.prefix = f"{package}{os.sep}"
        self.functions: set[tuple[str, str]] = set()
        self.cross: set[tuple[str, str]] = set()
        "Pairs of files, the first of which calls into the second."
        self.depth = 0
        self._stacks = threading.local()
        self._calls: dict[CodeType, Call | None] = {}
        self._sequence: list[tuple[int, Call]] = []
        "Calls of the main thread with their depth, in order: the steps are cut out of it."
        self._main = threading.current_thread()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call or a return."""
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if code not in self._calls:
            path = code.co_filename
            inside = path.startswith(self.prefix) and code.co_name not in COMPREHENSIONS
            self._calls[code] = Call(path.removeprefix(self.prefix), code.co_qualname, code) if inside else None
        call = self._calls[code]
        if call is None:
            return
        stack: list[Call] = self._stacks.__dict__.setdefault("stack", [])
        if event == "return":
            if stack:
                stack.pop()
            return
        stack.append(call)
        if any("<module>" in above.name for above in stack) or is_class_body(code):
            return
        self.functions.add((call.file, call.name))
        self.depth = max(self.depth, len(stack))
        if len(stack) > 1 and stack[-2].file != call.file:
            self.cross.add((stack[-2].file, call.file))
        if threading.current_thread() is self._main:
            self._sequence.append((len(stack), call))

    def figures(self) -> dict[str, Any]:
        """Return the files and functions that were executed."""
        files = sorted({file for file, _ in self.functions})
        return {
            "files": files,
            "functions": len(self.functions),
            "cross_file_calls": len(self.cross),
            "depth": self.depth,
        }

    def step(self) -> dict[str, Any]:
        """Return the widest training step: the function of training/ that leads to a sampler, and all below it.

        The first step is left out: it also builds what later steps reuse.
        """
        root = self._step_function()
        steps = []
        for start, (depth, call) in enumerate(self._sequence):
            if call is root:
                below = [call]
                for deeper, inner in self._sequence[start + 1 :]:
                    if deeper <= depth:
                        break
                    below.append(inner)
                steps.append(below)
        widest = max(steps[1:], key=lambda below: (len({call.file for call in below}), len(set(below))))
        return {
            "function": f"{root.file}:{root.name}",
            "files": sorted({call.file for call in widest}),
            "functions": len(set(widest)),
            "calls": len(widest),
            "switches": sum(a.file != b.file for a, b in pairwise(widest)),
        }

    def _step_function(self) -> Call:
        above: dict[int, Call] = {}
        for depth, call in self._sequence:
            above[depth] = call
            if call.file.startswith("sampling/") and call.name.endswith(".sample"):
                return next(above[d] for d in range(depth, 0, -1) if above[d].file.startswith("training/"))
        raise SystemExit("no sampler was called in training")


def is_class_body(code: CodeType) -> bool:
    """Return whether the code is a class body and not a function: only those have no fast locals."""
    return not code.co_flags & 0x0002


def way_to_product(package: Path) -> list[str]:
    """From now on note the package's frames between the public `recommend` and the matrix product, once."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    way: list[str] = []

    class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if not way and function.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm):
                way.extend(frames_since_recommend(package, sys._getframe(1)))
            return function(*args, **(kwargs or {}))

    Watch().__enter__()  # type: ignore[no-untyped-call]
    return way


def frames_since_recommend(package: Path, frame: FrameType | None) -> list[str]:
    """Return the package's functions called below the public `recommend`, the last of which multiplies."""
    prefix = f"{package}{os.sep}"
    frames: list[str] = []
    while frame:
        code = frame.f_code
        if code.co_filename.startswith(prefix) and code.co_name not in COMPREHENSIONS:
            frames.append(f"{code.co_filename.removeprefix(prefix)}:{code.co_qualname}")
        frame = frame.f_back
    public = [place for place, name in enumerate(frames) if name.endswith(".recommend") and not name.startswith("cli/")]
    return frames[: public[-1]][::-1]


# Tables


def rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the figures as lines of a table."""
    static = figures["static"]
    lines = static["lines"]
    length, size = static["file_length"], static["function_length"]
    headless = len(static["headless"])
    narrow = sum(opening.split()[0] in ("What", "How", "Of", "Where", "Whether") for _, opening in static["headless"])
    table = [
        ("files / lines", f"{static['files']} / {lines / 1000:.1f}k"),
        ("file length median / p90 / max", f"{length['median']:g} / {length['p90']} / {length['max']}"),
        ("files under 50 lines", f"{static['files_under_50']:.0%}"),
        ("function length median / p90", f"{size['median']:g} / {size['p90']}"),
        ("functions over 40 lines", str(len(static["functions_over_40"]))),
        ("functions with more than 6 parameters", str(len(static["functions_over_6_parameters"]))),
        ("arguments annotated", f"{static['arguments_annotated']:.0%}"),
        ("public functions with a docstring", f"{static['public_functions_documented']:.0%}"),
        (
            "public names defined in more than one file",
            f"{len(static['repeated_names'])} (+ {len(static['backend_twins'])} kernel twins)",
        ),
        ("functions named by a participle", str(len(static["participles"]))),
        ("`Any` per 1,000 lines", f"{1000 * static['any'] / lines:.1f} ({static['any']})"),
        (
            "in-function imports per 1,000 lines",
            f"{1000 * len(static['late_imports']) / lines:.1f} ({len(static['late_imports'])})",
        ),
        ("headless docstring openings", f"{headless / static['docstrings']:.1%} ({headless})"),
        ("of these What, How, Of, Where, Whether", f"{narrow / static['docstrings']:.1%} ({narrow})"),
        ("headless help texts", str(len(static["headless_help"]))),
        ("test : source lines", f"{static['test_lines'] / lines:.2f}"),
    ]
    if "train" in figures:
        train, recommend, step = figures["train"], figures["recommend"], figures["step"]
        table += [
            ("`spherec train`: files", str(len(train["files"]))),
            ("`spherec train`: functions / cross-file calls / depth", hops(train)),
            ("`spherec recommend`: files", str(len(recommend["files"]))),
            ("`spherec recommend`: functions / cross-file calls / depth", hops(recommend)),
            ("calls from `recommend` to the matrix product", str(recommend["calls_to_product"])),
            ("two-stage step on a CPU: files", str(len(step["files"]))),
            ("two-stage step on a CPU: functions / switches of file", f"{step['functions']} / {step['switches']}"),
        ]
    return table


def hops(figures: dict[str, Any]) -> str:
    return f"{figures['functions']} / {figures['cross_file_calls']} / {figures['depth']}"


def report(figures: dict[str, Any]) -> str:
    """Return the figures, then everything to mend, by place."""
    static = figures["static"]
    lines = [f"{name:60} {value}" for name, value in rows(figures)]
    lines += ["", "public names defined in more than one file:"]
    lines += [f"  {name}: {', '.join(files)}" for name, files in static["repeated_names"].items()]
    for title in ("headless", "headless_help"):
        lines += ["", f"{title.replace('_', ' ')} openings:"]
        lines += [f"  {place}  {opening}" for place, opening in static[title]]
    lines += ["", "functions named by a participle:", *(f"  {place}" for place in static["participles"])]
    for title in ("functions_over_40", "functions_over_6_parameters"):
        lines += ["", f"{title.replace('_', ' ')}:"]
        lines += [f"  {place}  {size}" for place, size in static[title].items()]
    lines += ["", "in-function imports:", *(f"  {place}" for place in static["late_imports"])]
    if "train" in figures:
        lines += [
            "",
            "from `recommend` to the product:",
            *(f"  {call}" for call in figures["recommend"]["way_to_product"]),
        ]
        lines += ["", f"step ({figures['step']['function']}):", *(f"  {file}" for file in figures["step"]["files"])]
        for command in ("train", "recommend"):
            lines += ["", f"files of `spherec {command}`:", *(f"  {file}" for file in figures[command]["files"])]
    return "\n".join(lines)


def figure_table(figures: dict[str, Any]) -> list[str]:
    """Return the figures as the lines of a Markdown table."""
    return ["| | |", "|---|--:|", *(f"| {name} | {value} |" for name, value in rows(figures))]


def comparison(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return a Markdown table of two trees."""
    earlier = dict(rows(before))
    lines = [f"| {name} | {earlier.get(name, '–')} | {value} |" for name, value in rows(after)]
    return "\n".join(["| | before | after |", "|---|--:|--:|", *lines])


def draw_map(root: Path) -> str:
    """Return all files of the package as a tree, each with the first sentence of its docstring."""
    package = root / "src/spherec"
    lines = ["src/spherec/"]
    for path in sorted(package.rglob("*.py"), key=lambda path: map_order(path.relative_to(package))):
        name = path.relative_to(package)
        inside = name.parts[:-1]
        if path.name == "__init__.py":
            label = "  " * (len(inside) - 1) + f"  {inside[-1]}/" if inside else "  __init__.py"
        else:
            label = "  " * len(inside) + f"  {path.name}"
        lines.append(f"{label:26} {first_sentence(ast.get_docstring(ast.parse(path.read_text())) or '')}".rstrip())
    return "\n".join(lines)


def map_order(name: Path) -> list[tuple[bool, str]]:
    """Return a key by which files come before folders, and a folder's `__init__` first."""
    parts = name.parts
    return [(place < len(parts) - 1, "" if part == "__init__.py" else part) for place, part in enumerate(parts)]


def first_sentence(text: str) -> str:
    """Return a docstring up to the first full stop, in one line."""
    line = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[^.])\.(?: |$)", line, maxsplit=1)[0]


def replace_between(name: str, content: str, page: str) -> str:
    """Return a page with new content between the comments `<!-- NAME -->` and `<!-- end of NAME -->`."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"CONTRIBUTING.md has no {begin.strip()} … {end}")
    return f"{before}{begin}{content}\n{end}{after}"


if __name__ == "__main__":
    main()
