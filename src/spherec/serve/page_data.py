"""Answers for the page alone: the map of the items, the items at some of its places, and where to begin."""

import logging
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.data.output_files import lock_output
from spherec.errors import ArgumentError, DataError, SpherecError
from spherec.item_map import ItemMap
from spherec.serve.served_model import ServedModel, to_json

_LOG = logging.getLogger("spherec.serve")
_POPULAR = 200  # items among which a visitor begins
_FEW_ITEMS, _MANY_ITEMS = 12, 60  # of users with whom a visitor begins
_SAMPLE_ITEMS, _SAMPLE_USERS = 6, 4
_SHOWN = 3  # items that say what a sample is about
_MOST = 1000  # items described at once
_LONGEST_DRAWING = 600  # seconds to wait for another process that draws the map


class MapKeeper:
    """Keeps the map of the model in use: from the file next to the model, or drawn in a thread of its own.

    The file is the model's with `.map` behind it. Where it cannot be written, each process draws its own map.
    """

    def __init__(self, model_file: Path) -> None:
        self._file = model_file.with_name(f"{model_file.name}.map")
        self._lock = Lock()
        self._map: ItemMap | None = None
        self._in_work: str | None = None  # checksum of the model whose map is drawn at this moment
        self._done = 0.0

    def find(self, served: ServedModel) -> ItemMap | float:
        """Return the map, or the share of its drawing that is done, in [0, 1]."""
        with self._lock:
            if self._map is not None and self._map.model == served.checksum:
                return self._map
            if self._in_work is None:
                self._in_work, self._done = served.checksum, 0.0
                Thread(target=self._work, args=(served,), name="map", daemon=True).start()
            return self._done if self._in_work == served.checksum else 0.0

    def _work(self, served: ServedModel) -> None:
        try:
            self._map = self._load_or_draw(served)
        except Exception:
            _LOG.exception("the map of the page could not be drawn")
        finally:
            self._in_work = None

    def _load_or_draw(self, served: ServedModel) -> ItemMap:
        known = self._load(served)
        if known is not None:
            return known
        try:
            with lock_output(self._file, wait=_LONGEST_DRAWING):
                return self._load(served) or self._draw(served)  # another process may have drawn it meanwhile
        except DataError:
            return self._draw(served)  # no file can be made there

    def _load(self, served: ServedModel) -> ItemMap | None:
        try:
            known = ItemMap.load(self._file)
        except SpherecError:
            return None
        fits = known.model == served.checksum and len(known.places) == served.model.data.n_items
        return known if fits else None

    def _draw(self, served: ServedModel) -> ItemMap:
        data, vectors = served.model.data, served.model.vectors
        drawn = ItemMap.draw(vectors, data.users_per_item, model=served.checksum, progress=self._report)
        try:
            drawn.save(self._file)
        except SpherecError as error:
            _LOG.warning("the map is not kept for the next start: %s", error)
        return drawn

    def _report(self, done: float) -> None:
        self._done = done


def encode_map(drawn: ItemMap, served: ServedModel) -> bytes:
    """Return the places x, y of all items, then their numbers of users, as 32-bit floats, little-endian."""
    users = served.model.data.users_per_item.astype("<f4")
    return drawn.places.astype("<f4").tobytes() + users.tobytes()


def describe_places(served: ServedModel, index: list[int], ids: list[str]) -> list[dict[str, Any]]:
    """Return index, id, name and number of users of items, by index or by id; ids that are not known are skipped."""
    n_items = served.model.data.n_items
    if len(index) + len(ids) > _MOST:
        raise ArgumentError(f"index and id must be at most {_MOST:,} together, got {len(index) + len(ids):,}")
    if any(not 0 <= one < n_items for one in index):
        raise ArgumentError(f"index must be from 0 to {n_items - 1:,}, got one outside")
    places = np.concatenate((np.array(index, dtype=np.int64), served.find_items(ids, "skip")))
    return [
        {"index": place, **item, "users": users}
        for place, item, users in zip(
            places.tolist(),
            served.describe_items(places),
            served.model.data.users_per_item[places].tolist(),
            strict=True,
        )
    ]


def choose_samples(served: ServedModel) -> dict[str, Any]:
    """Return items and users to begin with: popular items far apart, and users of some items far apart.

    With each item come its nearest items, with each user the most popular items that they have.
    """
    model, data = served.model, served.model.data
    popular = np.argsort(-data.users_per_item, kind="stable")[:_POPULAR]
    popular = popular[data.users_per_item[popular] > 0]
    items = popular[_spread(model.vectors.items(torch.from_numpy(popular)), _SAMPLE_ITEMS)]
    counts = np.diff(data.indptr)
    users = np.flatnonzero((counts >= _FEW_ITEMS) & (counts <= _MANY_ITEMS))
    users = users if len(users) else np.flatnonzero(counts)
    users = users[_spread(model.vectors.users(torch.from_numpy(users)), _SAMPLE_USERS)]
    return {
        "items": [_sample_item(served, item) for item in items.tolist()],
        "users": [_sample_user(served, user) for user in users.tolist()],
    }


def _sample_item(served: ServedModel, item: int) -> dict[str, Any]:
    (about,) = describe_places(served, [item], [])
    near = served.model.similar_items([served.model.data.item_ids[item]], k=_SHOWN)
    index = served.model.data.item_ids.find(near.columns["similar"])
    return about | {"near": describe_places(served, index.tolist(), [])}


def _sample_user(served: ServedModel, user: int) -> dict[str, Any]:
    data = served.model.data
    own = data.items_of(user).astype(np.int64)
    shown = own[np.argsort(-data.users_per_item[own], kind="stable")][:_SHOWN]
    about = {"id": to_json(data.user_ids[user]), "items": len(own)}
    return about | {"has": describe_places(served, shown.tolist(), [])}


def _spread(rows: Tensor, n: int) -> NDArray[np.int64]:
    """Return the first of rows (m, D), then n − 1 others, each the farthest from those that were chosen before."""
    if not len(rows):
        return np.zeros(0, dtype=np.int64)
    chosen = [0]
    away = (rows - rows[0]).square().sum(1)  # (m,)
    while len(chosen) < min(n, len(rows)):
        chosen.append(int(away.argmax()))
        away = torch.minimum(away, (rows - rows[chosen[-1]]).square().sum(1))
    return np.array(chosen)
