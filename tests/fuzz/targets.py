"""What is fuzzed: each target makes inputs from a generator, and runs one.

An input is a string of bytes, so that it can be kept and run again. Running one may end in success or in a
`SpherecError`; everything else is a failure. Where the format has a checksum, success also means the same content.
"""

import contextlib
import gzip
import io
import json
import os
import random
import zlib
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import scipy.sparse as sp
import torch

import spherec
from spherec.cli import main
from spherec.cli.presets import read_settings
from spherec.data.container import PARTITIONS, checksum, kind_of, read_container, write_container
from spherec.data.read.formats import FORMATS, Reading
from spherec.data.read.reading import read_interactions
from spherec.distributed.partitions import PartitionedInteractions, save_partitions
from spherec.distributed.preparation import prepare_partitions
from spherec.recommender import CML
from spherec.training import Training
from tests.fuzz.mutations import TEXTS, mutate, mutate_tree, odd_argument, odd_value
from tests.recommender.models import ITEMS, USERS, model_of, small
from tests.training.runs import same, trained

REMEDY = "make it again"


@dataclass(frozen=True)
class Target:
    """Something to fuzz."""

    make: object
    "(generator) -> bytes"
    run: object
    "(bytes, folder)"


# --- Valid files to begin from, made once in a process ---------------------------------------------------------------


@cache
def model(mainstream=None):
    data = small().with_item_names({item: f"name of {item}" for item in ITEMS[::2]})
    return model_of(data, mainstream=mainstream)


def with_state(known):
    """Another model object with the same content, for indexes of its own."""
    other = CML.from_config(known.config, device="cpu")
    other._current = known._state
    return other


@cache
def content(kind):
    """The bytes of a valid file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / kind
        match kind:
            case "model":
                model().save(path)
            case "model-reach":
                model(0.4).save(path)
            case "model-features":
                table = {"item": ITEMS, "genre": [f"g{n % 3}" for n in range(len(ITEMS))], "x": range(len(ITEMS))}
                table |= {"plot": [" ".join(f"word{n % m}" for m in (2, 3, 5)) for n in range(len(ITEMS))]}
                features = spherec.Features.from_frame(pl.DataFrame(table), item="item", dims=2)
                CML(device="cpu", dim=4, epochs=1).fit(small(), item_features=features, progress=False).save(path)
            case "data":
                model().data.save(path)
            case "compressed":
                model().data.save(path, compress=True)
            case "checkpoint":
                trained(epochs=1, checkpoint=path)
            case "index":
                from spherec.ranking.usearch import Hnsw

                with_state(model()).build_index(path, Hnsw(exact_beyond=1.0))
            case "parquet":
                pl.DataFrame({"user": ["a", "b", "a"], "item": [1, 2, 3], "when": [1.5, 2.5, 3.5]}).write_parquet(path)
        return path.read_bytes()


def put(folder, name, case):
    path = folder / name
    path.write_bytes(case)
    return path


def in_folder(make):
    """A maker of inputs that needs a place for files."""

    def with_folder(rng):
        with TemporaryDirectory() as folder, np.errstate(all="ignore"):
            return make(rng, Path(folder))

    return with_folder


def pack(folder, path):
    """The bytes of a file, or of all files whose names begin with its name, or of those in the folder that it is."""
    files = sorted(path.iterdir() if path.is_dir() else folder.glob(f"{path.name}*"))
    contents = {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}
    return json.dumps({name: len(one) for name, one in contents.items()}).encode() + b"\n" + b"".join(contents.values())


def unpack(case, folder):
    """Write the files that were packed, and return their names."""
    head, _, rest = case.partition(b"\n")
    for name, length in json.loads(head).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(rest[:length])
        rest = rest[length:]
    return sorted(json.loads(head))


def save_several(kind, folder):
    """Save a model in shards, or data in partitions."""
    path = folder / kind
    if kind == "shards":
        model(0.4).save(path, shards=3)
    else:
        save_partitions(model().data, path, 3)
    return path


@cache
def several(kind):
    with TemporaryDirectory() as folder:
        return pack(Path(folder), save_several(kind, Path(folder)))


def change_one(change, kind):
    """A maker of several files of which one is changed: `change` is given the generator and its path."""

    def make(rng, folder):
        change(rng, folder / rng.choice(unpack(several(kind), folder)))
        return pack(folder, folder / kind)

    return in_folder(make)


def damage_file(rng, path):
    path.write_bytes(mutate(rng, path.read_bytes()))


def forge_file(rng, path):
    """Forge one file, and the checksums by which others know it."""
    repack(rng, path)
    arrays, manifest = read_container(path, kind_of(path), remedy=REMEDY)
    if "-of-" in path.name:
        renamed = path.rename(f"{path}"[:-8] + manifest["checksum"]).name
        change_facts(
            path.with_name("shards"),
            lambda facts: {"shards": [renamed if name == path.name else name for name in facts["shards"]]},
        )
    elif path.name.startswith("pairs-") and {"indptr", "indices"} <= arrays.keys():
        known, number = checksum(arrays["indptr"], arrays["indices"]), int(path.stem[-1])
        facts = change_facts(
            path.with_name(PARTITIONS),
            lambda facts: {"checksums": [known if n == number else one for n, one in enumerate(facts["checksums"])]},
        )
        whole = checksum(np.frombuffer(" ".join(facts["checksums"]).encode(), np.uint8))
        change_facts(path.with_name("ids.safetensors"), lambda _: {"pairs": whole})


def change_facts(path, change):
    arrays, facts = read_container(path, kind_of(path), remedy=REMEDY)
    facts |= change(facts)
    write_container(path, facts["format"], arrays, facts)
    return facts


def repack(rng, path, *, compress=False):
    """Change the manifest or the arrays of a file, with a checksum that is right again; return its bytes."""
    kind = kind_of(path)
    arrays, manifest = read_container(path, kind, remedy=REMEDY)
    if rng.random() < 0.6:
        changed = mutate_tree(rng, manifest)
        manifest = changed if isinstance(changed, dict) else {}
    if arrays and rng.random() < 0.5:
        name = rng.choice(sorted(arrays))
        arrays[name] = odd_array(rng, arrays[name])
    if arrays and rng.random() < 0.1:
        del arrays[rng.choice(sorted(arrays))]
    write_container(path, kind, arrays, manifest)
    return gzip.compress(path.read_bytes()) if compress else path.read_bytes()


def odd_array(rng, array):
    match rng.randrange(7):
        case 0:
            return array[: rng.randrange(len(array) + 1)] if array.ndim else array
        case 1:
            return array.astype(rng.choice(("f4", "f8", "i1", "i4", "i8", "u8", "?")))
        case 2:
            return array[None]
        case 3:
            return np.zeros((0,), array.dtype)
        case 4:
            return np.repeat(array, 2, axis=0) if array.ndim else array
    changed = array.copy().reshape(-1)
    if len(changed):
        with np.errstate(all="ignore"):
            values = np.array([0, 1, -1, 2**31 - 1, 2**62, np.nan, np.inf, 1e30])
            changed[rng.randrange(len(changed))] = values[rng.randrange(8)].astype(array.dtype)
    return changed.reshape(array.shape)


# --- Files of spherec ------------------------------------------------------------------------------------------------


def load_same_model(case, folder, mainstream=None):
    loaded, known = spherec.load(put(folder, "m.spherec", case), device="cpu"), model(mainstream)
    assert loaded.data == known.data
    assert same(loaded.vectors, known.vectors)
    assert loaded.artifact.config == known.artifact.config


@in_folder
def forged_model(rng, folder):
    return repack(rng, put(folder, "m.spherec", content(rng.choice(("model", "model-reach", "model-features")))))


def ask_model(case, folder):
    """Load a model that may hold anything, and ask it everything: no answer needs to be sensible."""
    loaded = spherec.load(put(folder, "m.spherec", case), device="cpu")
    users, items = list(loaded.data.user_ids)[:3], list(loaded.data.item_ids)[:3]
    questions = [
        lambda: loaded.recommend(users, k=3).to_polars(),
        lambda: loaded.recommend_for(items, k=3),
        lambda: loaded.recommend(users, k=3, mainstream=-0.5),
        lambda: loaded.recommend_for(items, k=3, mainstream=1.25),
        lambda: loaded.score(users, items[: len(users)], mainstream=100),
        lambda: loaded.similar_items(items, k=3),
        lambda: loaded.similar_users(users, k=3),
        lambda: [loaded.explain(user, item) for user in users for item in items],
        lambda: loaded.score(users, items[: len(users)]),
        lambda: loaded.add_items({"item": ["new"], "genre": ["g1"], "x": [2.5], "plot": ["word1 other"]}),
        lambda: loaded.save(folder / "again.spherec"),
        lambda: run_command("info", folder / "m.spherec"),
    ]
    for ask in questions:
        with contextlib.suppress(spherec.SpherecError):
            ask()


def load_same_data(case, folder):
    assert spherec.Interactions.load(put(folder, "d.npz", case)) == model().data
    assert spherec.read(folder / "d.npz") == model().data


def use_data(case, folder):
    """Load data that may hold anything, and use it."""
    data = spherec.read(put(folder, "d.npz", case))
    data.save(folder / "again.npz")
    assert spherec.Interactions.load(folder / "again.npz") == data
    spherec.statistics(data)
    assert data.matrix.shape == (data.n_users, data.n_items)
    data.cut(spherec.Cut(min_per_user=2))


@in_folder
def forged_data(rng, folder):
    return repack(rng, put(folder, "d.npz", content("data")), compress=rng.random() < 0.3)


def load_same_shards(case, folder):
    unpack(case, folder)
    portions = ((0, 1), (0, 1)), ((1, 2), (0, 3)), ((0, 4), (1, 2))
    for users, items in portions:
        loaded = spherec.load(folder / "shards", device="cpu", users=users, items=items)
        known = model(0.4).artifact
        rows = slice((users[0] - known.data.n_items) % users[1], None, users[1]), slice(items[0], None, items[1])
        assert list(loaded.data.user_ids) == list(known.data.user_ids)[rows[0]]
        assert torch.equal(loaded.vectors.user_table, known.vectors.user_table[rows[0]])
        assert torch.equal(loaded.vectors.item_table, known.vectors.item_table[rows[1]])


def ask_shards(case, folder):
    """Load a model in shards that may hold anything, whole and in part, and ask it."""
    unpack(case, folder)
    for options in ({}, {"mmap": True, "items": (1, 2)}, {"users": (2, 3)}):
        with contextlib.suppress(spherec.SpherecError):
            loaded = spherec.load(folder / "shards", device="cpu", **options)
            loaded.recommend(list(loaded.data.user_ids)[:3], k=3)
            loaded.save(folder / "again", shards=2)


def read_same_partitions(case, folder):
    unpack(case, folder)
    opened = PartitionedInteractions.open(folder / "partitions")
    assert opened.read() == model().data
    assert sum(len(opened.read_share(rank, 3)) for rank in range(3)) == len(model().data)


def use_partitions(case, folder):
    """Open partitions that may hold anything, read them, and hold them as a process would."""
    unpack(case, folder)
    opened = PartitionedInteractions.open(folder / "partitions")
    for use in (
        opened.read,
        lambda: spherec.statistics(opened),
        lambda: opened.with_ids(opened.read_share(1, 3)),
        lambda: opened.read_share(0, 1),
    ):
        with contextlib.suppress(spherec.SpherecError):
            use()


def forged_header(rng):
    """A file whose header lies about its arrays, with a checksum that is right."""
    whole = content("data")
    length = int.from_bytes(whole[:8], "little")
    header, numbers = json.loads(whole[8 : 8 + length]), whole[8 + length :]
    metadata = header.pop("__metadata__")
    header = mutate_tree(rng, header)
    value = zlib.crc32(json.dumps([metadata["manifest"], header], sort_keys=True).encode())
    metadata["checksum"] = f"{zlib.crc32(numbers, value):08x}"
    encoded = json.dumps({"__metadata__": metadata, **(header if isinstance(header, dict) else {})}).encode()
    return len(encoded).to_bytes(8, "little") + encoded + numbers


def resume_run(case, folder):
    """A checkpoint is refused, or the run ends as it would have without a break."""
    path = put(folder, "run.checkpoint", case)
    if not _ENDS:
        _ENDS.append(trained(epochs=2).vectors)
    assert same(trained(epochs=2, checkpoint=path, resume=True).vectors, _ENDS[0])


_ENDS = []


def same_lists(case, folder):
    assert list_through(case, folder) == list_through(content("index"), folder)


def list_through(index, folder):
    known = model()
    indexed = with_state(known).use_index(put(folder, "m.usearch", index))
    return list(indexed.recommend(USERS, k=5))


# --- Files of others -------------------------------------------------------------------------------------------------

SAMPLES = {
    "delimited": b'user,item,rating,when\nann,a,5,2024-01-01\nbob,"b, c",3,2024-01-02\n"c\nd",e,1,2024-01-03\n',
    "json-lines": b'{"user": "ann", "item": 1, "rating": 5}\n{"user": "bob", "item": 2, "rating": 3.5}\n',
    "book-crossing": b'"User-ID";"ISBN";"Book-Rating"\n"276725";"034545104X";"0"\n"276726";"0155061224";"5"\n',
    "echonest": b"b80344d0\tSOAKIMP12A8C130995\t1\nb80344d0\tSOAPDEY12A81C210A9\t2\n",
    "amazon-ratings": b"AKM1MP6P0OYPR,0132793040,5.0,1365811200\nA2CX7LUOHB2NDG,0321732944,5.0,1341100800\n",
    "movielens": b"1::1193::5::978300760\n1::661::3::978302109\n2::1193::4::978298413\n",
    "adjacency": b"0 1 2 3\n1 2 4\n2\n3 0 1\n",
    "citeulike": b"3 1 2 3\n2 2 4\n0\n2 0 1\n",
}


FEATURE_SAMPLES = {
    "delimited": b"id,year,genres,plot\n1,1979,Drama|War,the zone in a wood\n2,,Drama,a sea of zone\n3,1985,War,\n",
    "json-lines": b'{"id": 1, "x": 2.5, "tags": ["a", "b"]}\n{"id": 2, "tags": ["a"]}\n{"id": 3, "v": [1.5]}\n',
    "npy": b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }".ljust(127)
    + b"\n"
    + bytes(7)
    + b"?",
}


def text_file(rng):
    """A line of JSON with the options of reading, then the file."""
    kind = rng.choice(sorted(SAMPLES))
    text = SAMPLES[kind if rng.random() < 0.8 else rng.choice(sorted(SAMPLES))]
    text = text * rng.choice((1, 1, 3, 200))
    if rng.random() < 0.2:
        text = text.decode().encode(rng.choice(("utf-16", "utf-8-sig", "latin-1", "utf-32")))
    text = rng.randbytes(rng.randrange(300)) if rng.random() < 0.05 else text
    text = mutate(rng, text) if rng.random() < 0.9 else text
    if rng.random() < 0.2:
        text = gzip.compress(text, mtime=0)
        text = mutate(rng, text) if rng.random() < 0.7 else text
    options = {"format": rng.choice((kind, kind, "auto", rng.choice(sorted(FORMATS))))}
    odd = {
        "encoding": ("utf-8", "latin-1", "utf-16", "utf-7", "idna", "rot13", "nope", "\0", "cp037", "utf-8-sig"),
        "separator": (",", "\t", "::", ";", " ", "", "ab", "\x1f", "é", '"', "\0"),
        "value": ("rating", "item", "", "nothing"),
        "time": ("when", "rating"),
        "time_format": ("%Y-%m-%d", "%", "%Q", "", "%Y" * 99),
        "header": (["user", "item"], ["user", "item", "rating", "when"], [], ["user", "user"], [""]),
        "quotes": (True, False),
        "missing": ("drop", "error"),
    }
    for name in rng.sample(sorted(odd), rng.choice((0, 0, 1, 2))):
        options[name] = rng.choice(odd[name])
    return json.dumps(options).encode() + b"\n" + text


def read_text(case, folder):
    line, _, text = case.partition(b"\n")
    path = put(folder, "events.txt", text)
    data = spherec.read(path, **json.loads(line))
    assert len(data)
    data.save(folder / "again.npz")
    assert spherec.Interactions.load(folder / "again.npz") == data


def read_item_names(case, folder):
    text = case.partition(b"\n")[2]
    names = spherec.read_names(put(folder, "names.csv", text), id="user", name="item")
    assert all(isinstance(word, str) for pair in names.items() for word in pair)


def feature_file(rng):
    """A table or a matrix."""
    kind = rng.choice(sorted(FEATURE_SAMPLES))
    text = mutate(rng, FEATURE_SAMPLES[kind]) if rng.random() < 0.9 else FEATURE_SAMPLES[kind]
    return gzip.compress(text, mtime=0) if rng.random() < 0.1 else text


def read_feature_file(case, folder):
    read = spherec.read_features(put(folder, "features.txt", case))
    assert np.isfinite(read.matrix).all()


def read_table(case, folder):
    spherec.read(put(folder, "events.parquet", case), time="when")


# --- Ids of any type, in several files -------------------------------------------------------------------------------

TEXT_IDS = ["1", "01", "1.0", *"uU\xe9\ufb01\0", "u\0", "u ", " u", "\u202eu", "e\u0301", "fi", "\ufeffu", "\U0001f600"]
NUMBER_IDS = [0, 1, -1, 7, 2**24 + 1, 2**31, 2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1]
KINDS = {pl.String: TEXT_IDS, pl.Categorical: TEXT_IDS, pl.Int64: NUMBER_IDS, pl.Int32: [1, 7, -1]}
KINDS |= {pl.UInt64: [*map(abs, NUMBER_IDS), 2**63, 2**64 - 1], pl.Float32: [1.0, 2.0**24, 7.0]}
KINDS |= {pl.Float64: [1.0, 7.0, 1.0, 7.0, 0.5, 2.0**53, 2.0**63]}


def read_mixed(case, folder):
    """Write columns of ids of any types to some files, and read these at once, as a frame and into partitions."""
    rng, truth = random.Random(int(case)), set()
    form = rng.choice(("parquet", "csv", "jsonl", "frame"))
    kinds = {role: rng.choices(list(KINDS), k=rng.choice((1, 1, 2))) for role in ("user", "item")}
    for number in range(1 if form == "frame" else rng.choice((1, 2, 3))):
        height, chosen = rng.randrange(1, 5), {role: rng.choice(own) for role, own in kinds.items()}
        cells = {role: rng.choices(KINDS[kind], k=height) for role, kind in chosen.items()}
        frame = pl.DataFrame({role: pl.Series(own, dtype=chosen[role]) for role, own in cells.items()})
        path = folder / f"{number}.{form}"
        {"csv": frame.write_csv, "jsonl": frame.write_ndjson}.get(form, frame.write_parquet)(path)
        rows = zip(*(map(str, own) if form == "csv" else own for own in cells.values()), strict=True)
        truth |= {(user.removeprefix("\ufeff") if form == "csv" else user, item) for user, item in rows}
    files, columns = sorted(folder.iterdir()), {"user": "user", "item": "item"}
    ways = [lambda: read_interactions(files, Reading(**columns))]
    ways += [lambda: prepare_partitions(files, Reading(**columns), folder / "parts", 2).read()]
    if form == "frame":
        ways = [lambda one=one: spherec.Interactions.from_frame(one, **columns) for one in (frame, frame.to_pandas())]
    pairs = [attempt(lambda way=way: list_pairs(way())) for way in ways]
    assert pairs in ([None, None], [truth, truth]), f"{form} of {kinds} is not {truth}: {pairs}"


def list_pairs(data):
    users, items = data.user_ids.array[data.users], data.item_ids.array[data.indices]
    return set(zip(users.tolist(), items.tolist(), strict=True))


def attempt(read):
    """What is read, None if it is refused."""
    with contextlib.suppress(spherec.SpherecError):
        return read()


# --- Words and values ------------------------------------------------------------------------------------------------


CONTROLS = set(map(chr, [*range(9), 11, 12, *range(14, 32), *range(127, 160)]))


def run_command(*words):
    """Run the command line: it ends with 0 or 2, without a traceback and without control characters."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([os.fspath(word) for word in words])
        except SystemExit as ended:
            code = ended.code or 0
    assert code in (0, 2), f"exit code {code}"
    assert "Traceback" not in err.getvalue()
    for text in (out.getvalue(), err.getvalue()):
        assert not set(text) & set(map(chr, [*range(9), 11, 12, *range(14, 32), 127])), (
            f"a control character in {text!r}"
        )


def settings_file(rng):
    return mutate(rng, Training().to_toml().encode())


def read_config(case, folder):
    Training().change(read_settings(put(folder, "c.toml", case), [])).to_toml()


NAMES = "dim reach mainstream sampler.beta loss loss.kind sampler.kind epochs seed optimizer.learning_rate x "
NAMES = tuple(NAMES.split(" "))


def settings(rng):
    value = json.dumps(odd_value(rng)) if rng.random() < 0.7 else rng.choice(TEXTS)
    return f"{rng.choice(NAMES)}{rng.choice(('=', '=', '=', '', '.a='))}{value}".encode("utf-8", "surrogatepass")


def change_settings(case, folder):
    Training().change(read_settings(None, [case.decode("utf-8", "surrogatepass")])).to_toml()


def ids(rng):
    known = rng.choice(USERS).encode()
    return rng.choice((known, mutate(rng, known), rng.choice(TEXTS).encode(), b"--" + known, rng.randbytes(4)))


def ask_for_ids(case, folder):
    words = case.replace(b"\0", b"?").decode("utf-8", "surrogateescape")
    model = put(folder, "m.spherec", content("model"))
    command, *more = (["recommend"], ["similar"], ["remove", "-o", folder / "n.spherec", "--users"])[len(case) % 3]
    run_command(command, model, *more, words)


def update_model(case, folder):
    """The model learns from a file of events, or stays as it is."""
    path, model = put(folder, "events.txt", case.partition(b"\n")[2]), put(folder, "m.spherec", content("model"))
    run_command("update", model, path, "-o", model, "--force", "--device", "cpu", "--gate", "0.5")
    assert spherec.load(model, device="cpu").data.n_users >= len(USERS)


def filter_items(case, folder):
    """Odd cells and odd conditions: items in their order, or an error of ours."""
    from spherec.serve.item_table import ItemTable  # an extra

    rng = random.Random(int(case))
    values = ["a|b", "|", "", "True", "nan", "1e999", "é" * 9, 0, -1, 2**70, 1.5, 1e300, True, False, "2026-01-01"]
    cells = [rng.choice([None, rng.choice(values), rng.choices(values, k=3), {"x": 1}, []]) for _ in range(9)]
    signs = rng.sample(["<", "<=", ">", ">="], rng.randint(1, 2))
    bounds = {sign: rng.choice([value for value in values if not isinstance(value, bool)]) for sign in signs}
    wanted = rng.choice([rng.choice(values), rng.choices(values, k=2), bounds])
    chosen = ItemTable({"x": cells}).select({"x": wanted})
    assert chosen.tolist() == sorted(set(chosen.tolist()))


def matrix(rng):
    return str(rng.randrange(2**32)).encode()  # the seed: a matrix is not a string of bytes


def use_matrix(case, folder):
    rng = random.Random(int(case))
    dense = np.asarray(
        np.random.default_rng(int(case)).random((6, 8)) < 0.4, dtype=rng.choice(("f4", "f8", "i8", "?", "f2", "c16"))
    )
    kind = rng.choice(("csr", "csc", "coo", "bsr", "dok", "lil", "dia", "dense"))
    made = dense if kind == "dense" else getattr(sp, f"{kind}_{rng.choice(('array', 'matrix'))}")(dense.astype("f8"))
    for name in ("indptr", "indices", "data", "row", "col", "coords"):
        part = getattr(made, name, None)
        if isinstance(part, np.ndarray) and len(part) and part.dtype != object and rng.random() < 0.4:
            values = [0, -1, 5000, 2**31 - 1, float("nan"), float("inf")]
            with np.errstate(all="ignore"):
                part.reshape(-1)[rng.randrange(part.size)] = np.array(rng.choice(values)).astype(part.dtype)
    orientation = rng.choice(("users x items", "items x users"))
    data = spherec.Interactions.from_matrix(made, orientation=orientation)
    assert data.matrix.shape[0] in (6, 8)


def call(case, folder):
    """One call of the public API with odd arguments."""
    rng = random.Random(int(case))
    known, data = model(), model().data
    users, items = list(data.user_ids), list(data.item_ids)
    argument = partial(odd_argument, rng, [users[0], items[0], users[:3], items[:3], 1, 5, 0.5, None, "error", "skip"])
    calls = [
        lambda: known.recommend(argument(), argument(), only=argument(), exclude=argument()),
        lambda: known.recommend(users[0], argument(), exclude_seen=argument(), unknown=argument()),
        lambda: known.recommend_for(argument(), argument(), only=argument()),
        lambda: known.similar_items(argument(), argument()),
        lambda: known.similar_users(argument(), argument()),
        lambda: known.explain(argument(), argument(), argument()),
        lambda: known.score(argument(), argument()),
        lambda: spherec.Cut(min_value=argument(), min_per_user=argument()),
        lambda: spherec.Interactions.from_pairs(argument(), argument(), times=argument()),
        lambda: spherec.Interactions.from_pairs(users[:3], items[:3], values=argument(), duplicates=argument()),
        lambda: spherec.Interactions.from_matrix(argument(), orientation=argument()),
        lambda: data.with_item_names(argument()),
        lambda: data.items_of(argument()),
        lambda: data.filter(argument()),
        lambda: spherec.Hinge(margin=argument()),
        lambda: spherec.Softmin(temperature=argument(), gamma=argument()),
        lambda: spherec.TwoStage(negatives=argument(), beta=argument()),
        lambda: spherec.Popularity(argument(), argument()),
        lambda: CML.preset(argument(), device="cpu"),
        lambda: CML(device="cpu", dim=argument(), loss=argument(), sampler=argument()),
        lambda: CML(device="cpu", optimizer=argument(), epochs=argument(), seed=argument()),
        lambda: CML(device="cpu", epochs=1, dim=4).fit(argument(), user=argument(), orientation=argument()),
        lambda: spherec.evaluate(known, argument(), argument()),
        lambda: spherec.load(argument(), device="cpu"),
        lambda: spherec.read(argument(), user=argument(), format=argument()),
        lambda: spherec.splits.ratio(rng.choice((data, argument())), test=argument()),
        lambda: data.save(folder / "x.npz") or spherec.Interactions.load(argument()),
    ]
    rng.choice(calls)()


def turn_dial(case, folder):
    """One call of the public API with an odd place of the dial."""
    rng = random.Random(int(case))
    known, place = model(0.4), odd_argument(rng, [0.5, -1, 1.25, None, [0.1, 0.2, 0.3], np.float32(0.5), np.array(0.5)])
    fold = spherec.splits.ratio(known.data, 0.3)
    calls = [
        lambda: known.recommend(USERS[:3], 3, mainstream=place),
        lambda: known.recommend_for(ITEMS[:3], 3, mainstream=place),
        lambda: known.recommend_to_file(folder / "x.csv", USERS[:3], 3, mainstream=place),
        lambda: known.score(USERS[:3], ITEMS[:3], mainstream=place),
        lambda: spherec.evaluate(known.vectors, fold.train, fold.test, mainstream=place),
        lambda: CML(device="cpu", reach=rng.choice((True, False, place)), mainstream=place),
    ]
    rng.choice(calls)()


TARGETS = {
    "model": Target(lambda rng: mutate(rng, content("model")), load_same_model),
    "model-reach": Target(lambda rng: mutate(rng, content("model-reach")), partial(load_same_model, mainstream=0.4)),
    "model-forged": Target(forged_model, ask_model),
    "data": Target(lambda rng: mutate(rng, content("data")), load_same_data),
    "data-compressed": Target(lambda rng: mutate(rng, content("compressed")), load_same_data),
    "data-forged": Target(forged_data, use_data),
    "header-forged": Target(forged_header, use_data),
    "shards": Target(change_one(damage_file, "shards"), load_same_shards),
    "shards-forged": Target(change_one(forge_file, "shards"), ask_shards),
    "partitions": Target(change_one(damage_file, "partitions"), read_same_partitions),
    "partitions-forged": Target(change_one(forge_file, "partitions"), use_partitions),
    "checkpoint": Target(lambda rng: mutate(rng, content("checkpoint")), resume_run),
    "index": Target(lambda rng: mutate(rng, content("index")), same_lists),
    "text": Target(text_file, read_text),
    "names": Target(text_file, read_item_names),
    "mixed": Target(matrix, read_mixed),
    "parquet": Target(lambda rng: mutate(rng, content("parquet")), read_table),
    "features-text": Target(feature_file, read_feature_file),
    "config": Target(settings_file, read_config),
    "settings": Target(settings, change_settings),
    "ids": Target(ids, ask_for_ids),
    "update": Target(text_file, update_model),
    "filters": Target(matrix, filter_items),
    "matrix": Target(matrix, use_matrix),
    "call": Target(matrix, call),
    "dial": Target(matrix, turn_dial),
}
