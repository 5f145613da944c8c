"""The map of the items that the page shows: a place in two dimensions for each, near where they are near in the space.

t-SNE lays out the most popular items, and clumps that lie far apart are moved together. Every other item lies at those
of them that are nearest to it in the space: all items at once would take minutes.
"""

import asyncio
import logging
import re
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree
from torch import Tensor

from spherec import rng
from spherec.artifact import Artifact
from spherec.data.output_files import atomic_write, lock_output, refuse_unwritable
from spherec.errors import DataError
from spherec.geometry import squared_distance
from spherec.recommender.trained_model import Query
from spherec.serve.served_model import ServedModel

Places = NDArray[np.float32]
"""(n, 2) places on a map."""

_LOG = logging.getLogger("spherec.serve")
_LANDMARKS = 10_000  # items that t-SNE lays out
_FEWEST = 20  # items for which it is worth the time
_PERPLEXITY = 20.0  # neighbours of a landmark that count, about
_APART = 5.0  # distance between two clumps, in parts of the usual distance to the fifth neighbour
_HOMES = 3  # nearest landmarks that place another item
_SPREAD = 0.3  # of the other items around their place, in parts of the distance between landmarks
_BLOCK = 2048  # items at a time
_DRAW = f"import os, sys; os.nice(10); from {__name__} import draw_file; draw_file(*sys.argv[1:])"  # requests first
_LONGEST_DRAWING = 600  # seconds to wait for another process that draws the map
_WORD = re.compile(r"[^\W\d_]{4,}")
_POPULAR = 200  # items among which a visitor begins
_FEW_ITEMS, _MANY_ITEMS = 12, 60  # of users with whom a visitor begins
_SAMPLE_ITEMS, _SAMPLE_USERS = 6, 4
_SHOWN = 3  # items that say what a sample is about


def draw_map(items: Tensor, popularity: NDArray[np.int64]) -> Places:
    """Return a place for each of the items (I, D), of which (I,) are the numbers of users. Reach does not count."""
    order = torch.from_numpy(np.argsort(-popularity, kind="stable"))
    landmarks, others = order[:_LANDMARKS], order[_LANDMARKS:]
    layout = _lay_out(items[landmarks])
    places = np.empty((len(items), 2), dtype=np.float32)
    places[landmarks.numpy()] = layout
    if len(others):
        places[others.numpy()] = _surround(layout, *find_near(items[others], items[landmarks], _HOMES))
    return places - np.median(places, axis=0, keepdims=True)


def find_near(rows: Tensor, landmarks: Tensor, k: int) -> tuple[NDArray[np.int64], Places]:
    """Return the k landmarks (M, D) nearest to each of the rows (n, D), and their squared distances: (n, k), (n, k)."""
    best = [squared_distance(block, landmarks[None]).topk(k, largest=False) for block in torch.split(rows, _BLOCK)]
    distances = torch.cat([one.values for one in best]).clamp_min(0)
    return torch.cat([one.indices for one in best]).numpy(), distances.numpy()


def _lay_out(landmarks: Tensor) -> Places:
    """Return places (M, 2) of the landmarks (M, D): along their two principal directions, and by t-SNE from there."""
    centred = landmarks - landmarks.mean(0)
    axes = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -2:]  # (D, ≤ 2)
    places: Places = torch.nn.functional.pad(centred @ axes, (0, 2 - axes.shape[1])).numpy()
    if (n := len(landmarks)) < _FEWEST:
        return places
    from sklearn.manifold import TSNE  # takes a second

    perplexity = min(_PERPLEXITY, n / 5)
    near, squared = find_near(landmarks, landmarks, k := int(3 * perplexity) + 2)
    known = csr_matrix((np.sqrt(squared).ravel(), near.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    start = places * np.float32(1e-4 / max(places.std(), 1e-9))
    layout = TSNE(perplexity=perplexity, metric="precomputed", init=start, angle=0.7, max_iter=500, random_state=0)
    return _pack(np.nan_to_num(layout.fit_transform(known)))


def _pack(places: Places) -> Places:
    """Return places (M, 2) of which clumps that lay far apart are side by side: the largest stays, others come near."""
    tree = KDTree(places)
    apart = _APART * max(float(np.median(np.asarray(tree.query(places, 6)[0])[:, -1])), 1e-9)
    _, clump = connected_components(tree.sparse_distance_matrix(tree, apart, output_type="coo_matrix"))  # (M,)
    order = np.argsort(-np.bincount(clump), kind="stable")
    packed = places[clump == order[0]]
    for members in (clump == other for other in order[1:]):
        distances, nearest = map(np.asarray, KDTree(packed).query(places[members]))
        at = distances.argmin()  # along the shortest way between them, no two points of them come nearer than `apart`
        places[members] += (packed[nearest[at]] - places[members][at]) * (1 - apart / distances[at])
        packed = np.concatenate((packed, places[members]))
    return places


def _surround(layout: Places, near: NDArray[np.int64], squared: Places) -> Places:
    """Return places (n, 2) among the nearest landmarks (n, k) of items, at their squared distances (n, k)."""
    weights = 1 / (squared + 1e-6)  # (n, k)
    middle = (layout[near] * weights[:, :, None]).sum(1) / weights.sum(1, keepdims=True)  # (n, 2)
    distance = np.sqrt(np.ptp(np.percentile(layout, [5, 95], axis=0), axis=0).prod() / len(layout))
    middle += _SPREAD * distance * rng.stream(0, "map").standard_normal(middle.shape, dtype=np.float32)
    return np.asarray(middle, dtype=np.float32)


class MapKeeper:
    """Keeps the map of the model in use: from the file next to the model, or drawn by a process of its own.

    The file is the model's with `.map` behind it. Where it cannot be written, each server draws its own map.
    """

    def __init__(self, model_file: Path) -> None:
        self._model_file = model_file
        self._checksum = ""  # of the model whose map it is, or is drawn at this moment
        self._drawing: asyncio.Task[Places] | None = None

    def find(self, served: ServedModel) -> Places | None:
        """Return the map; None while it is drawn. To be called in the event loop."""
        if self._drawing is None or (self._drawing.done() and self._checksum != served.checksum):
            self._checksum = served.checksum
            self._drawing = asyncio.create_task(self._load_or_draw(served))
        return self._drawing.result() if self._drawing.done() else None

    async def _load_or_draw(self, served: ServedModel) -> Places:
        """Return the map. It is drawn by another process, because UMAP lets no other thread work meanwhile."""
        file = self._model_file.with_name(f"{self._model_file.name}.map")
        if (places := _load(file, served.checksum)) is not None:
            return places
        with tempfile.TemporaryDirectory() as folder:
            try:
                refuse_unwritable(file)
            except DataError:
                file = Path(folder, "map")
            command = (sys.executable, "-c", _DRAW, str(self._model_file), str(file))
            process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
            _, errors = await process.communicate()
            if (places := _load(file, served.checksum)) is None:
                cause = errors.decode(errors="replace")[-2000:] or "the model file was replaced meanwhile"
                _LOG.error("the map of the page could not be drawn", extra={"fields": {"cause": cause}})
                raise DataError("the map could not be drawn; the log of the server has the cause")
        return places


def draw_file(model_file: str, map_file: str) -> None:
    """Draw the map of the model in a file, and save it. Another process may be at it already: then wait for it."""
    artifact = Artifact.load(model_file, mmap=True)
    checksum = artifact.checksum or "unsaved"
    with lock_output(map_file, wait=_LONGEST_DRAWING):
        if _load(Path(map_file), checksum) is None:
            places = draw_map(artifact.vectors.item_table, artifact.data.users_per_item)
            with atomic_write(map_file) as file:
                np.savez(file, places=places, model=np.array(checksum))


def _load(file: Path, checksum: str) -> Places | None:
    """Return the map in a file if it is that of the model."""
    try:
        with np.load(file, allow_pickle=False) as known:
            places: Places = known["places"]
            return places if str(known["model"]) == checksum else None
    except Exception:  # whatever a missing or damaged file raises: it is drawn again
        return None


def describe_places(served: ServedModel, items: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Return index, id, name and number of users of items (n,), and the address of their picture if they have one."""
    about = zip(items.tolist(), served.count_items(items), strict=True)
    return [{"index": index, **item, "picture": served.picture_of(index)} for index, item in about]


def collect_words(served: ServedModel) -> dict[str, NDArray[np.int64]]:
    """Return the popular items (n,) that have each word in their names; of “title — author” the author is one word."""
    names, words = served.model.data.item_names or (), defaultdict(list)
    for item in served.items.find("", _LANDMARKS if names else 0).tolist():
        title, _, author = (names[item] or "").partition(" — ")
        for word in {*_WORD.findall(title.casefold()), author} - {""}:
            words[word].append(item)
    return {word: np.sort(items) for word, items in words.items()}


def choose_samples(served: ServedModel) -> dict[str, Any]:
    """Return popular items, with names if there are some, with their nearest ones, and users with items of theirs."""
    data = served.model.data
    names = data.item_names or ()
    has_name = np.array([name is not None for name in names] or np.zeros(data.n_items), dtype=bool)  # (I,)
    popular = np.lexsort((-data.users_per_item, ~has_name))
    popular = popular[data.users_per_item[popular] > 0][: min(_POPULAR, int(has_name.sum()) or _POPULAR)]
    items = _thin(popular, _SAMPLE_ITEMS)
    counts = np.diff(data.indptr)
    some = np.flatnonzero((counts >= _FEW_ITEMS) & (counts <= _MANY_ITEMS))
    users = _thin(some if len(some) else np.flatnonzero(counts), _SAMPLE_USERS)
    own = (served.own_items(user) for user in users)
    near = [describe_places(served, one.items) for one in served.rank([Query(item=item, k=_SHOWN) for item in items])]
    has = [describe_places(served, one[np.argsort(~has_name[one], kind="stable")][:_SHOWN]) for one in own]
    return {
        "items": [{**item, "near": one} for item, one in zip(describe_places(served, items), near, strict=True)],
        "users": [{**user, "has": own} for user, own in zip(served.count_users(users), has, strict=True)],
    }


def _thin(rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return n of the rows, evenly from the first on."""
    return rows[:: max(len(rows) // n, 1)][:n]
