"""Measure the house: lines of each room, and how easily a reader finds their way.

    python scripts/house.py                                         print the figures of this tree
    python scripts/house.py --root PATH                             measure another tree
    python scripts/house.py --json > after.json                     print them as JSON
    python scripts/house.py --compare results/house/before.json     print a table of before and after
    python scripts/house.py --fast                                  leave out the executed hops and the help

The static figures are read from the syntax trees. The help texts are printed by the commands. The hops are executed:
a subprocess trains on 30 users for 2 epochs and asks for recommendations, with `NUMBA_DISABLE_JIT=1` so that kernels
are ordinary functions, and a profiler notes every function of the package that is called.
"""

import argparse
import ast
import contextlib
import io
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

HERE = Path(__file__).resolve()

# The rooms, and what lives there: folders and files of src/spherec, where a longer name goes before a shorter one.
ROOMS = {
    "ground": "__init__ __main__ _version errors geometry rng device lazy optim start ials losses sampling embedding",
    "kernels": "kernels",
    "data": "data datasets",
    "training": "training",
    "ranking, evaluation": "ranking evaluation",
    "recommender": "recommender artifact",
    "distributed": "distributed",
    "lab": "lab",
    "serve": "serve",
    "export": "export",
    "adapters": "adapters",
    "cli": "cli",
    "bench": "bench",
}
PLACES = {place: room for room, places in ROOMS.items() for place in places.split()}
CORE = ("ground", "kernels", "data", "training", "ranking, evaluation", "recommender")

USERS, ITEMS, EPOCHS = 30, 200, 2
TRAIN = ["train", "events.csv", "-o", "model.spherec", "--force", "--epochs", str(EPOCHS)]
COMMANDS = {
    "train": TRAIN,
    # Fewer candidates than items, as in a catalogue of the usual size: with the default, stage one takes all 200.
    "step": [
        *TRAIN,
        "--preset",
        "two-stage",
        "--set",
        "sampler.candidates=20",
        "--set",
        "batch_size=32",
        "--dim",
        "16",
    ],
    "recommend": ["recommend", "model.spherec", "u3"],  # the last, because `way_to_product` watches to the end
}

# Openings that begin a clause or a prepositional phrase, in which no noun or verb says what the thing is.
HEADLESS = re.compile(
    r"[\W_]*((what|how|of|where|whether|which|who|whom|whose|when|why|as|by|with|for|from|in|on|at|to|into|until|till|"
    r"after|before|so|if|than|without|inside|within|while|because|since|unless|during|among|under)(?![\w'-])"
    r"|(it|they) (is|was|are|were|has|had)\b|(this|these|those|that) and\b|said\b|told\b)",
    re.IGNORECASE,
)

# Function names of one word that say what was done instead of what to do.
PARTICIPLE = re.compile(
    r"_*(?!seed|need|feed|embed)([^_]+(?<!e)ed|told|kept|shown|found|written|built|made|drawn|chosen|given|taken|seen|"
    r"held|known|done|sent)$"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=HERE.parents[1], help="tree to measure; default: this one")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--compare", type=Path, metavar="JSON", help="print a table with this file's figures as before")
    parser.add_argument("--fast", action="store_true", help="leave out the executed hops and the help")
    parser.add_argument("--inside", choices=[*COMMANDS, "help"], action="append", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        package = (arguments.root / "src/spherec").resolve()
        print(json.dumps({part: help_texts() if part == "help" else trace(part, package) for part in arguments.inside}))
        return
    figures = static_figures(arguments.root)
    if not arguments.fast:
        figures |= executed(arguments.root, "help", *COMMANDS)
    if arguments.json:
        print(json.dumps(figures, indent=1))
    elif arguments.compare:
        earlier = dict(rows(json.loads(arguments.compare.read_text())))
        print("| | before | after |\n|---|--:|--:|")
        print("\n".join(f"| {name} | {earlier.get(name, '–')} | {value} |" for name, value in rows(figures)))
    else:
        print("\n".join(f"{name:60} {value}" for name, value in rows(figures)))
        print_places(figures)


# Figures read from the sources


def static_figures(root: Path) -> dict[str, Any]:
    """Return what the syntax trees of `root`/src/spherec show."""
    package = root / "src/spherec"
    sources = {path.relative_to(package).as_posix(): path.read_text() for path in sorted(package.rglob("*.py"))}
    trees = {name: ast.parse(text) for name, text in sources.items()}
    lengths = sorted(len(text.splitlines()) for text in sources.values())
    nodes = [(name, node) for name, tree in trees.items() for node in ast.walk(tree)]
    functions = [
        (f"{name}:{node.lineno} {node.name}", node)
        for name, node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    sizes = {place: (node.end_lineno or 0) - node.lineno + 1 for place, node in functions}
    parameters = {place: parameters_of(node) for place, node in functions}
    docstrings = [text for name, tree in trees.items() for text in docstrings_of(name, tree)]
    public = [ast.get_docstring(node) for _, node in functions if not node.name.startswith("_")]
    annotated = [parameter.annotation is not None for each in parameters.values() for parameter in each]
    return {
        "files": len(sources),
        "lines": sum(lengths),
        "rooms": rooms(sources, trees),
        "unknown": sorted(name for name in sources if room_of(name) is None),
        "test_lines": sum(len(path.read_text().splitlines()) for path in (root / "tests").rglob("*.py")),
        "script_lines": sum(
            len(path.read_text().splitlines())
            for folder in ("scripts", "benchmarks")
            for path in (root / folder).rglob("*.py")
        ),
        "file_length": spread(lengths),
        "function_length": spread(sorted(sizes.values())),
        "functions_over_40": {place: size for place, size in sizes.items() if size > 40},
        "functions_over_6_parameters": {place: len(each) for place, each in parameters.items() if len(each) > 6},
        "arguments_annotated": statistics.mean(annotated),
        "public_functions_documented": statistics.mean(text is not None for text in public),
        "raise": sum(isinstance(node, ast.Raise) for _, node in nodes),
        "any": sum(isinstance(node, ast.Name) and node.id == "Any" for _, node in nodes),
        "repeated_names": repeated_names(trees),
        "participles": [place for place, node in functions if is_participle(node)],
        "late_imports": sorted({place for name, tree in trees.items() for place in late_imports(name, tree)}),
        "docstrings": len(docstrings),
        "headless": [text for text in docstrings if HEADLESS.match(text.partition("  ")[2])],
    }


def room_of(name: str) -> str | None:
    """Return the room of a file of src/spherec, or None if its folder or its name is in no room."""
    parts = name.removesuffix(".py").split("/")
    found = (PLACES.get("/".join(parts[:depth])) for depth in range(len(parts), 0, -1))
    return next((room for room in found if room), None)


def rooms(sources: dict[str, str], trees: dict[str, ast.Module]) -> dict[str, dict[str, Any]]:
    """Return the lines of each room, and the share of them that are comments, docstrings or blank."""
    texts = defaultdict(list)
    for name in sources:
        texts[room_of(name)].append(name)
    return {
        room: {
            "lines": (lines := sum(len(sources[name].splitlines()) for name in texts[room])),
            "quiet": 1 - sum(code_lines(sources[name], trees[name]) for name in texts[room]) / lines if lines else 1.0,
        }
        for room in ROOMS
    }


def code_lines(text: str, tree: ast.Module) -> int:
    """Return how many lines are neither blank nor a comment nor part of a docstring."""
    silent = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in silent:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and is_text(node.value):
            code.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code)


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def spread(values: list[int]) -> dict[str, float]:
    """Return the median of sorted values, what nine tenths do not exceed, and the largest."""
    return {"median": statistics.median(values), "p90": values[int(0.9 * len(values))], "max": values[-1]}


def parameters_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    """Return the parameters of a function without `self` and `cls`."""
    spelled = [*node.args.posonlyargs, *node.args.args, node.args.vararg, *node.args.kwonlyargs, node.args.kwarg]
    return [argument for argument in spelled if argument and argument.arg not in ("self", "cls")]


def docstrings_of(name: str, tree: ast.Module) -> Iterator[str]:
    """Yield place and opening of every docstring, of fields too, and of every text given as `help=`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) or (isinstance(node, ast.keyword) and node.arg == "help"):
            found = node.value
            if isinstance(found, ast.Constant) and isinstance(found.value, str):
                opening = " ".join(found.value.strip().split("\n\n")[0].split())
                yield f"{name}:{found.lineno}  {opening[:100]}"


def is_participle(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function is named by a past participle; a property may be."""
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    return bool(PARTICIPLE.match(node.name)) and not decorators & {"property", "cached_property"}


def repeated_names(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Return the public top-level names that several files define; one kernel for several backends is one name."""
    places = defaultdict(set)
    for name, tree in trees.items():
        folder = "kernels/" if name.startswith("kernels/") else name
        for defined in defined_names(tree.body):
            places[defined].add(folder)
    several = ((defined, sorted(files)) for defined, files in sorted(places.items()) if len(files) > 1)
    return {defined: files for defined, files in several if not defined.startswith("_")}


def defined_names(body: list[ast.stmt]) -> Iterator[str]:
    """Yield what a module's top level defines: functions, classes, constants and type aliases."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.If | ast.Try):
            yield from defined_names(node.body)


def late_imports(name: str, tree: ast.Module) -> Iterator[str]:
    """Yield the imports inside functions."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    yield f"{name}:{node.lineno} {ast.unparse(node)}"


# Help, printed by the commands


def help_texts() -> dict[str, dict[str, int]]:
    """Return for each command the number of its options without --help, and the lines of its help in 80 columns."""
    os.environ["COLUMNS"] = "80"
    import spherec.cli  # the measured tree's

    def show(words: list[str]) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
            spherec.cli.main([*words, "--help"])
        return printed.getvalue()

    figures = {}
    waiting: list[list[str]] = [[]]
    for words in waiting:
        text = show(words)
        if " COMMAND " in text:  # a group: the rows of its boxes begin with the names of its commands
            waiting += [[*words, name] for name in re.findall(r"^[│|] ([a-z][a-z-]*) ", text, re.MULTILINE)]
        else:
            options = re.findall(r"^[│| ] ?\*? *(--?[a-z][a-z-]*)", text, re.MULTILINE)
            figures[" ".join(words)] = {"options": len(set(options) - {"--help"}), "lines": len(text.splitlines())}
    return figures


# Hops, executed


def executed(root: Path, *parts: str) -> dict[str, Any]:
    """Run parts of this script on a tree's package, in another process; return what they found."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(root.resolve() / "src"),
        "NUMBA_DISABLE_JIT": "1",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    words = [sys.executable, str(HERE), "--root", str(root.resolve())]
    words += [word for part in parts for word in ("--inside", part)]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "events.csv").write_text(events())
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"a command failed under the profiler:\n{done.stdout}{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


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
    assert package in imported.parents, f"measures {package}, but {imported} was imported"
    words = COMMANDS[command]
    profile = Profile(package)
    product = way_to_product(package) if command == "recommend" else []
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
    lines = figures["lines"]
    size = figures["function_length"]
    per_thousand = {name: 1000 * figures[name] / lines for name in ("raise", "any")}
    table = [
        (f"lines of {room}; comments, docstrings, blank", f"{each['lines']:,}; {each['quiet']:.0%}")
        for room, each in figures["rooms"].items()
    ]
    table += [
        ("lines of the core", f"{sum(figures['rooms'][room]['lines'] for room in CORE):,}"),
        ("lines of src / tests", f"{lines:,} / {figures['test_lines']:,}"),
        ("lines of scripts and benchmarks", f"{figures['script_lines']:,}"),
        ("files", str(figures["files"])),
        ("file length median / p90 / max", " / ".join(f"{value:g}" for value in figures["file_length"].values())),
        ("function length median / p90", f"{size['median']:g} / {size['p90']}"),
        ("functions over 40 lines", str(len(figures["functions_over_40"]))),
        ("functions with more than 6 parameters", str(len(figures["functions_over_6_parameters"]))),
        ("`raise` per 1,000 lines", f"{per_thousand['raise']:.1f} ({figures['raise']})"),
        ("`Any` per 1,000 lines", f"{per_thousand['any']:.1f} ({figures['any']})"),
        ("imports inside functions", str(len(figures["late_imports"]))),
        ("arguments annotated", f"{figures['arguments_annotated']:.0%}"),
        ("public functions with a docstring", f"{figures['public_functions_documented']:.0%}"),
        ("public names defined in more than one file", str(len(figures["repeated_names"]))),
        ("functions named by a participle", str(len(figures["participles"]))),
        ("headless docstrings and help texts", str(len(figures["headless"]))),
    ]
    if "help" in figures:
        options, length = ({name: each[key] for name, each in figures["help"].items()} for key in ("options", "lines"))
        table.append(("options of the command line, all commands", str(sum(options.values()))))
        table += [(f"options / lines of help: {name}", f"{options[name]} / {length[name]}") for name in options]
        train, recommend, step = figures["train"], figures["recommend"], figures["step"]
        for name, each in (("train", train), ("recommend", recommend)):
            table.append((f"`spherec {name}`: files / functions", f"{len(each['files'])} / {each['functions']}"))
            table.append((f"`spherec {name}`: depth", str(each["depth"])))
        table.append(("calls from `recommend` to the matrix product", str(recommend["calls_to_product"])))
        table.append(("two-stage step on a CPU: files / functions", f"{len(step['files'])} / {step['functions']}"))
    return table


def print_places(figures: dict[str, Any]) -> None:
    """Print everything to mend, by place."""
    for title, found in figures.items():
        if title == "rooms" or not isinstance(found, list | dict) or title.endswith("length"):
            continue
        print(f"\n{title.replace('_', ' ')}:")
        for name, value in found.items() if isinstance(found, dict) else ((place, "") for place in found):
            print(f"  {name}  {value}")


if __name__ == "__main__":
    main()
