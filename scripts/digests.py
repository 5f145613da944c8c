"""Compute checksums of what users run: vectors, lists, tables as they are read, runs of several processes.

    python scripts/digests.py -o results/digests/cpu.json             write the checksums
    python scripts/digests.py --compare results/digests/cpu.json      compute them again and list the differences
    python scripts/digests.py --only reading --quick                  one part (see PARTS); quick: under a minute

The same code, seed, device and library versions give the same bits; another kind of processor may multiply in another
order, and then all that have softmin over a shared pool differ. Run this before and after a change that should
change no result. On a CPU use one thread: OMP_NUM_THREADS=1. Only what users call is called, so that the same script
runs on another tree: PYTHONPATH=OTHER/src.
"""

import argparse
import contextlib
import gzip
import io
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

import spherec
from spherec.cli import main as spherec_command

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("SPHEREC_SHARED", ROOT.parent / "shared")) / "data"
SEEDS = (0, 1)

# The presets, and what the paper compares, by settings. Reach is off where it came later than the first digests.
PRESETS: dict[str, dict[str, Any]] = {
    "two-stage": {"preset": "two-stage"},
    "two-stage-as-released": {"sampler": spherec.TwoStage(1, beta=0.8, sharpness=1.0, vectors="frozen")},
    "two-stage-as-written": {"sampler": spherec.TwoStage(1, beta=0.8, sharpness=1.0)},
    "uniform": {"sampler": spherec.Uniform(negatives=5), "batch_size": 4096},
    "popularity": {"sampler": spherec.Popularity(negatives=5)},
    "accurate": {"preset": "accurate", "reach": False, "loss": spherec.Softmin(0.09, gamma=0.85)},
    "balanced": {"preset": "accurate", "reach": False, "loss": spherec.Softmin(0.09, gamma=0.3)},
    "niche": {"preset": "accurate", "reach": False, "loss": spherec.Softmin(0.09, gamma=-0.6)},
    "two-stage, as it is": {"preset": "two-stage"},
    "fast, as it is": {"preset": "fast"},
    "accurate, as it is": {"preset": "accurate"},
}

POOL = spherec.Popularity(negatives=64, beta=0.5, shared=True)
VARIANTS: dict[str, dict[str, Any]] = {
    "hinge, uniform": {"sampler": spherec.Uniform(negatives=3)},
    "hinge, rank weight, popularity": {"loss": spherec.Hinge(rank_weight=True), "sampler": spherec.Popularity(2)},
    "hinge, hard": {"sampler": spherec.Hard()},
    "hinge, semi-hard": {"sampler": spherec.SemiHard(negatives=2)},
    "hinge, two-stage, few candidates": {"sampler": spherec.TwoStage(candidates=50)},
    "hinge, two-stage, replacement": {"sampler": spherec.TwoStage(candidates=50, replacement=True)},
    "hinge, two-stage, sharp": {"sampler": spherec.TwoStage(candidates=50, sharpness=1.0)},
    "hinge, two-stage, frozen": {"sampler": spherec.TwoStage(candidates=50, vectors="frozen")},
    "ball, uniform": {"constraint": "ball", "sampler": spherec.Uniform(negatives=3)},
    "ball, two-stage": {"constraint": "ball", "sampler": spherec.TwoStage(candidates=50)},
    "ball, softmin, shared pool": {"constraint": "ball", "loss": spherec.Softmin(0.1), "sampler": POOL},
    "softmin, popularity": {"loss": spherec.Softmin(0.1), "sampler": spherec.Popularity(negatives=8)},
    "softmin, shared pool": {"loss": spherec.Softmin(0.1, gamma=0.5), "sampler": POOL},
    "softmin, shared uniform pool": {"loss": spherec.Softmin(0.1), "sampler": spherec.Uniform(64, shared=True)},
    "softmin, shared pool, balance": {"loss": spherec.Softmin(0.1), "sampler": POOL, "balance": 0.5},
    "hinge, shared pool": {"sampler": spherec.Uniform(negatives=16, shared=True)},
    "hinge, balance": {"sampler": spherec.Uniform(negatives=3), "balance": 0.5},
    "penalties": {"covariance": 1.0, "spread_out": 1.0, "sampler": spherec.Uniform(negatives=3)},
    "subspaces, hinge": {"subspace_dim": 8, "sampler": spherec.TwoStage(candidates=50)},
    "subspaces, frozen": {"subspace_dim": 8, "sampler": spherec.TwoStage(candidates=50, vectors="frozen")},
    "subspaces, softmin": {"subspace_dim": 8, "loss": spherec.Softmin(0.1), "sampler": POOL},
    "reach, subspaces": {"subspace_dim": 8, "reach": True, "loss": spherec.Softmin(0.1), "sampler": POOL},
    "reach, hinge": {"reach": True, "sampler": spherec.Uniform(negatives=3)},
    "subspaces, ball": {"subspace_dim": 8, "constraint": "ball", "sampler": spherec.Uniform(negatives=3)},
}


class Run(NamedTuple):
    """What the parts are given."""

    device: Literal["cpu", "cuda"]
    quick: bool
    folder: Path
    "A new folder for files."


Digests = Iterator[tuple[str, str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("-o", "--output", type=Path, help="write the digests to this file")
    parser.add_argument("--compare", type=Path, help="a file of digests; exit with 1 where one differs")
    parser.add_argument(
        "--quick", action="store_true", help="leave out the presets on Book-Crossing, and two runs of two processes"
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="compute this part; may be repeated")
    arguments = parser.parse_args()
    digests: dict[str, str] = {}
    for part in arguments.only or PARTS:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
            try:
                digests |= PARTS[part](Run(arguments.device, arguments.quick, Path(folder)))
            except ImportError as error:
                print(f"{part}: left out the rest: {error}", file=sys.stderr)
        print(f"{part}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
    if arguments.output:
        described = {
            "command": f"python scripts/digests.py --device {arguments.device}",
            "environment": environment(arguments.device),
            "digests": digests,
        }
        arguments.output.write_text(json.dumps(described, indent=1) + "\n")
    if arguments.compare:
        before = json.loads(arguments.compare.read_text())["digests"]
        known = {name: digest for name, digest in digests.items() if name in before}
        differs = [name for name, digest in known.items() if before[name] != digest]
        print(f"{len(known) - len(differs)} of {len(known)} equal; differing: {', '.join(differs) or 'none'}")
        print(f"not in the file: {', '.join(digests.keys() - known.keys()) or 'none'}")
        sys.exit(bool(differs))


def environment(device: str) -> dict[str, str]:
    """Return commit, machine and versions."""
    source = str(Path(spherec.__file__).parent)
    git = ["git", "-C", source, "rev-parse", "--short", "HEAD"]
    return {
        "commit": subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip(),
        "device": torch.cuda.get_device_name() if device == "cuda" else processor(),
        "threads": str(torch.get_num_threads()),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "numpy", "scipy", "numba")},
    }


def processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(": ")[2]
    return platform.machine()


# Training


def digests_of_variants(run: Run) -> Digests:
    """Every path through a step."""
    small = planted()
    for seed in SEEDS:
        for name, settings in VARIANTS.items():
            model = make(dim=16, batch_size=128, epochs=6, seed=seed, device=run.device, **settings)
            yield f"{name}; seed {seed}", digest(model.fit(small, validation=0.2, progress=False))


def digests_of_presets(run: Run) -> Digests:
    """Every preset, and the lists of those with reach."""
    small, whole = planted(), spherec.datasets.book_crossing()
    for seed in SEEDS:
        for name, settings in PRESETS.items():
            preset = f"preset {name}"
            model = make(epochs=3, seed=seed, device=run.device, **settings)
            yield f"{preset}, planted; seed {seed}", digest(model.fit(small, progress=False))
            if "as it is" in name:
                yield f"{preset}, planted; seed {seed}; lists", digest_lists(model, small)
            if not run.quick and (seed == 0 or "as it is" not in name):
                model = make(epochs=1, seed=seed, device=run.device, **settings)
                yield f"{preset}, Book-Crossing; seed {seed}", digest(model.fit(whole, progress=False))
                if "as it is" in name:
                    yield f"{preset}, Book-Crossing; seed {seed}; lists", digest_lists(model, whole)


def digests_of_updates(run: Run) -> Digests:
    """Weights, users folded in, models continued, each with and without reach and subspaces."""
    small, weighed = planted(), planted(weighed=True)
    for name, settings in SMALL.items():
        model = make(epochs=3, device=run.device, **settings)
        yield f"{name}, weights", digest(model.fit(weighed, validation=0.2, progress=False))
        model = make(epochs=3, device=run.device, **settings).fit(small, progress=False)
        more = planted(first=280, users=40, items=420)  # 20 users are known, 20 are new, and so are 20 items
        folded = model.fold_in(more, unknown="skip")
        yield f"{name}, fold_in", digest(folded)
        yield f"{name}, fold_in; lists", digest_lists(folded, more)
        yield f"{name}, recommend_for", digest_records(model.recommend_for([5, 13, 21, 400 - 1], k=20))
        model.partial_fit(more, epochs=2, progress=False)
        yield f"{name}, partial_fit", digest(model)
        model = make(epochs=3, device=run.device, **settings).fit(weighed, progress=False)
        more = planted(first=280, users=40, items=420, weighed=True)
        model.partial_fit(more, epochs=2, validation=0.2, progress=False)
        yield f"{name}, partial_fit with weights", digest(model)


def digests_of_features(run: Run) -> Digests:
    """Item features: a frame, a matrix, both; items added by them."""
    import polars as pl

    small = planted()
    frame = pl.DataFrame([item_row(item) for item in range(440)])
    known, new = frame[:410], frame[410:]
    matrix = sp.random(400, 30, density=0.2, random_state=1, format="csr", dtype=np.float32)
    of_frame = spherec.Features.from_frame(known, item="item")
    yield "features of a frame", checksum(np.asarray(of_frame.matrix))
    for name, settings in SMALL.items():
        for kind, features in (("frame", of_frame), ("matrix", matrix)):
            model = make(epochs=3, device=run.device, **settings)
            model.fit(small, item_features=features, progress=False)
            yield f"{name}, item features, {kind}", digest(model)
            yield f"{name}, item features, {kind}; lists", digest_lists(model, small)
            if kind == "frame":
                model.add_items(new)
                yield f"{name}, add_items", digest(model)
                model.partial_fit(planted(first=290, users=20, items=440), epochs=2, progress=False)
                yield f"{name}, add_items, partial_fit", digest(model)


SMALL: dict[str, dict[str, Any]] = {
    "two-stage": {"dim": 16, "batch_size": 128, "sampler": spherec.TwoStage(candidates=50)},
    "accurate": {
        "preset": "accurate",
        "dim": 32,
        "subspace_dim": 16,
        "batch_size": 128,
        "sampler": {"negatives": 64},
    },
}


def make(preset: str | None = None, **settings: Any) -> spherec.CML:
    """Return an untrained model, on a tree of today or on one where the preset was an argument."""
    if preset is None:
        return spherec.CML(**settings)
    named = getattr(spherec.CML, "preset", None)
    return named(preset, **settings) if named else spherec.CML(preset=preset, **settings)  # type: ignore[call-arg]


def planted(*, first: int = 0, users: int = 300, items: int = 400, weighed: bool = False) -> spherec.Interactions:
    """Users with items of one of 8 groups, and a few others."""
    user, item = np.meshgrid(np.arange(first, first + users), np.arange(items), indexing="ij")
    noise = (user * 7919 + item * 104729) % 1000  # a fixed pattern, no generator needed
    has = np.where(user % 8 == item % 8, noise < 300, noise < 8)
    if not weighed:
        return spherec.Interactions.from_pairs(user[has].tolist(), item[has].tolist())
    return spherec.Interactions.from_pairs(
        user[has].tolist(), item[has].tolist(), values=(noise[has] % 7 + 1).astype(float), weigh=True
    )


def item_row(item: int) -> dict[str, Any]:
    """Return what is known about an item: a number, a category, tags and a text."""
    words = ["sea", "town", "murder", "ship", "love", "winter", "garden", "king", "letter", "night", "road", "stone"]
    return {
        "item": item,
        "year": None if item % 17 == 0 else 1950 + item * 31 % 70,
        "price": (item * 7919 % 1000) / 8,
        "genre": ("crime", "novel", "poems", "essay")[item % 8 // 2],
        "tags": [words[(item + step) % 12] for step in range(item % 4)],
        "text": " ".join(words[(item * k + item % 8) % 12] for k in range(1, 9)),
    }


# Reading


def digests_of_reading(run: Run) -> Digests:
    """Tables of every kind, read by `spherec data prepare`: order of ids, matrix, names, times."""
    written = write_tables(run.folder)
    for name, words in written.items():
        yield f"reading {name}", digest_data(prepare(run.folder, *words))
    yield "reading book_crossing()", digest_data(spherec.datasets.book_crossing())
    prepare(run.folder, *written["csv"])
    command("data", "split", str(run.folder / "prepared.npz"), "--seed", "3", "-o", str(run.folder / "split"))
    for part in ("train", "test"):
        yield f"split, {part}", digest_data(spherec.read(run.folder / f"split/fold-0/{part}.npz"))
    if not SHARED.is_dir():
        print(f"left out the public files: no {SHARED}", file=sys.stderr)
        return
    for name, (file, *options) in PUBLIC.items():
        yield f"reading {name}", digest_data(prepare(run.folder, str(SHARED / file), *options))


PUBLIC = {
    "BX-Book-Ratings.csv.gz": ("book-crossing/BX-Book-Ratings.csv.gz", "--min-value", "4", "--min-per-user", "20"),
    "users.dat.gz": ("citeulike-t/users.dat.gz", "--min-per-user", "10"),
    "reviews_sample_25.csv.gz": ("amazon-movies-tv-sample/reviews_sample_25.csv.gz",),
}


def write_tables(folder: Path) -> dict[str, list[str]]:
    """Write the same events as tables of every kind; return for each the words that follow `data prepare`."""
    import polars as pl

    rows: list[dict[str, Any]] = [
        {
            "user": f"{(number := place * 7919 % 61 * (place % 7) // 7):03}{'é' * (number % 5 == 0)}",
            "item": 990 + (place * 104729) % 53,
            "rating": float(place * 31 % 10 + 1) / 2,
            "time": 1_100_000_000 + place * 61 % 5000,
            "title": f'The {(place * 104729) % 211}th, "a" tale',
        }
        for place in range(4000)
    ]
    columns = list(rows[0])
    options = ["--value-column", "rating", "--min-value", "2", "--time-column", "time", "--duplicates", "last"]
    options += ["--name-column", "title"]
    frame = pl.DataFrame(rows)
    plain = [",".join(columns)] + [
        ",".join(
            f'"{str(value).replace(chr(34), 2 * chr(34))}"' if key == "title" else str(value)
            for key, value in row.items()
        )
        for row in rows
    ]
    (folder / "events.csv").write_text("\n".join(plain) + "\n")
    (folder / "events.csv.gz").write_bytes(gzip.compress("\r\n".join(plain).encode(), mtime=0))
    (folder / "events.tsv").write_text(
        "\n".join(["\t".join(columns), *("\t".join(map(str, row.values())) for row in rows)])
    )
    (folder / "events.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    frame.write_parquet(folder / "events.parquet")
    frame.with_columns(pl.col("item").cast(pl.String)).write_parquet(folder / "text.parquet")
    latin = [f"{row['user']};{row['item'] if place % 9 else ''};{row['rating']}" for place, row in enumerate(rows)]
    (folder / "latin.csv").write_text("\n".join(latin), encoding="latin-1")
    (folder / "parts").mkdir()
    for part in range(3):
        (folder / f"parts/{part}.csv").write_text("\n".join([plain[0], *plain[1 + part :: 3]]))
    (folder / "ratings.dat").write_text(
        "\n".join(f"{int(row['user'][:3]) + 1}::{row['item']}::{int(row['rating']) + 1}::{row['time']}" for row in rows)
    )
    (folder / "lists.txt").write_text(
        "\n".join(" ".join(str((user * 31 + step * 17) % 200) for step in range(-1, user % 7)) for user in range(150))
    )
    likes = [[(user * 31 + step * step * 17) % 200 for step in range(user % 7 + 1)] for user in range(150)]
    (folder / "users.dat").write_text(
        "\n".join(" ".join(map(str, [len(set(own)), *sorted(set(own))])) for own in likes)
    )
    few = ["--min-per-user", "12", "--min-per-item", "22"]
    tables = ("events.csv", "events.csv.gz", "events.tsv", "events.jsonl", "events.parquet", "text.parquet", "parts")
    return {
        "csv": [str(folder / "events.csv"), *options],
        **{name: [str(folder / name), *options, *few] for name in tables},
        "latin.csv": [
            *(str(folder / "latin.csv"), "--header", "user,item,rating", "--encoding", "latin-1", "--missing", "drop"),
            *("--value-column", "rating", "--duplicates", "sum", "--min-value", "4"),
        ],
        "ratings.dat": [str(folder / "ratings.dat"), "--min-value", "3"],
        "lists": [str(folder / "lists.txt"), "--format", "adjacency"],
        "users.dat": [str(folder / "users.dat"), "--format", "citeulike"],
    }


def prepare(folder: Path, *words: str) -> spherec.Interactions:
    """Return what `spherec data prepare` makes of a file."""
    command("data", "prepare", *words, "-o", str(folder / "prepared.npz"), "--force")
    return spherec.read(folder / "prepared.npz")


def command(*words: str) -> None:
    """Run a command in this process, without what it prints."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as printed:
        try:
            spherec_command(list(words))
        except SystemExit as ended:
            if ended.code:
                raise RuntimeError(f"{' '.join(words)}: {printed.getvalue()}") from ended


# The command line, and several processes


def digests_of_commands(run: Run) -> Digests:
    """`spherec train` in one process and in two, from a file and from partitions; files of lists and vectors."""
    write_tables(run.folder)
    events, model = run.folder / "events.csv", run.folder / "model.spherec"
    for preset, sampler in (("two-stage", "sampler.candidates=50"), ("accurate", "sampler.negatives=64")):
        options = ["--preset", preset, "--epochs", "2", "--dim", "16", "--set", "batch_size=64", "--set", sampler]
        if preset == "accurate":
            options += ["--set", "subspace_dim=8"]
        words = ["train", str(events), "-o", str(model), "--force", "--device", run.device, *options]
        command(*words)
        yield f"spherec train, {preset}", digest(spherec.load(model))
        for name in ("lists.csv", "lists.parquet"):
            command("recommend", str(model), "--all", "-k", "5", "-o", str(run.folder / name), "--force")
            yield f"spherec recommend --all, {preset}, {name}", digest_file(run.folder / name)
        command("export", str(model), "-o", str(run.folder / "vectors.npz"), "--what", "both", "--force")
        with np.load(run.folder / "vectors.npz") as arrays:
            kept = [arrays[name] for name in sorted(arrays.files) if arrays[name].dtype.kind == "f"]
            yield f"spherec export, {preset}", checksum(*kept)
        command("data", "prepare", str(events), "--partitions", "4", "-o", str(run.folder / f"{preset}.parts"))
        torchrun = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            "2",
            "-m",
            "spherec",
        ]
        for name, source in (("a file", events), ("partitions", run.folder / f"{preset}.parts")):
            if run.quick and (preset == "accurate") != (name == "a file"):
                continue
            words[1] = str(source)
            done = subprocess.run([*torchrun, *words], capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"two processes from {name}: left out: {done.stderr[-500:]}", file=sys.stderr)
            else:
                yield f"two processes, {preset}, from {name}", digest(spherec.load(model))


def digest_file(path: Path) -> str:
    if path.suffix == ".parquet":
        import polars as pl

        return checksum(pl.read_parquet(path).write_csv().encode())
    return checksum(path.read_bytes())


# Checksums


def digest(model: spherec.CML) -> str:
    """Checksum of both tables, of reach if there is any, and of the validation curve."""
    tables = [model.vectors.user_table, model.vectors.item_table]
    if model.vectors.item_reach is not None:
        tables.append(model.vectors.item_reach)
    curve = json.dumps([(record.epoch, record.loss, record.metric) for record in model.history.epochs])
    return checksum(curve.encode(), *(table.cpu().numpy() for table in tables))


def digest_lists(model: spherec.CML, data: spherec.Interactions) -> str:
    """Checksum of lists of 100 users and of 100 items, with every dial that users are told of."""
    users, items = list(data.user_ids)[:100], list(data.item_ids)[:100]
    dials = (None,) if model.vectors.item_reach is None else (None, 1.0, 0.3, -0.25)
    lists: list[Iterable[Any]] = [model.recommend(users, k=20, mainstream=dial) for dial in dials]
    lists += [model.recommend(users, k=5, exclude_seen=False, exclude=items[:7]), model.recommend(users, only=items)]
    lists += [model.similar_items(items, k=20), model.similar_users(users, k=20), model.explain(users[3], items[5])]
    return checksum(*(digest_records(each).encode() for each in lists))


def digest_records(records: Iterable[Any]) -> str:
    """Checksum of a list as users read it: ids, ranks, names, and scores to the last bit."""
    return checksum(json.dumps([[str(value) for value in record] for record in records]).encode())


def digest_data(data: spherec.Interactions) -> str:
    """Checksum of ids in their order, pairs, names, times and weights."""
    arrays = [data.indptr, data.indices, data.times, data.weights]
    ids = [[str(value) for value in each] for each in (data.user_ids, data.item_ids, data.item_names or ())]
    return checksum(json.dumps(ids).encode(), *(each for each in arrays if each is not None))


def checksum(*parts: Any) -> str:
    value = 0
    for part in parts:
        value = zlib.crc32(part if isinstance(part, bytes) else np.ascontiguousarray(part).tobytes(), value)
    return f"{value:08x}"


PARTS: dict[str, Callable[[Run], Digests]] = {
    "variants": digests_of_variants,
    "presets": digests_of_presets,
    "updates": digests_of_updates,
    "features": digests_of_features,
    "reading": digests_of_reading,
    "commands": digests_of_commands,
}

if __name__ == "__main__":
    main()
