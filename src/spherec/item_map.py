"""A map of the items: a place in two dimensions for each, where items that are near in the space are near again.

Most catalogues have a few thousand items that many people know, and many that nearly nobody does. A layout of all of
them shows the latter as a dust of islands, one for each user, and squeezes the former into a corner. So the popular
items are laid out first, as landmarks; every other item then lies around the landmark that is nearest to it in the
space, the nearer the closer.

Landmarks are laid out as LargeVis and UMAP do. Each is tied to its nearest landmarks; distances are scaled by those of
the neighbourhood, so that an item that is near to everything is not tied to everything. The layout begins at the two
principal directions of the vectors. Then, sweep after sweep, ties pull with the force of a Cauchy kernel 1/(1 + d²),
and landmarks drawn by their popularity push, so that the popular ones have room for their names.
"""

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec import rng
from spherec.data.input_files import describe_damage
from spherec.data.tensor_file import read_tensors, write_tensors
from spherec.errors import DataError
from spherec.geometry import Vectors, squared_distance
from spherec.kernels.cpu.compiled import compiled

MAP_FORMAT = "spherec-map"
MAP_VERSION = 1

Places = NDArray[np.float32]
"""(n, 2) places on a map."""

_BEGIN = 10.0  # standard deviation of the first layout
_CANDIDATES = 50  # nearest landmarks, of which the ties are chosen
_SCALE = slice(3, 6)  # of the sorted neighbours: their mean distance is the scale of a neighbourhood
_BLOCK = 4096  # items at a time
_GOLDEN = np.pi * (3 - 5**0.5)  # angle between two that follow each other in a sunflower
_CROWDING = 0.45  # radius of the n-th item around a landmark is n to this power
_SPACING = 0.5  # of items around landmarks, in parts of what even density would give
_BLUR = 0.25  # of the radius, so that crowds have no hard rim
_SHARE_OF_LAYOUT = 0.5  # of the whole work, for progress


@dataclass(frozen=True)
class MapSettings:
    """Settings of a map."""

    landmarks: int = 4096
    "Items that are laid out first, the most popular ones."
    ties: int = 15
    "Near landmarks that each landmark is tied to."
    sweeps: int = 500
    "Passes over all ties."
    pushes: int = 30
    "Landmarks that push each landmark in a sweep."
    room: float = 0.75
    "Exponent ρ: a landmark with n users is drawn to push with a probability in proportion to n^ρ."
    seed: int = 0
    "Seed of everything random."


@dataclass(frozen=True)
class ItemMap:
    """Places of all items."""

    places: Places
    "(I, 2)"
    model: str | None = None
    "Checksum of the model file."

    @classmethod
    def draw(
        cls,
        vectors: Vectors,
        popularity: NDArray[np.int64],
        settings: MapSettings | None = None,
        *,
        model: str | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> "ItemMap":
        """Compute a map of the items. Reach does not count.

        The same vectors, popularity and settings give the same map on one machine.

        Args:
            vectors: Vectors of the items.
            popularity: (I,) number of users of each item.
            settings: Settings of the map.
            model: Checksum of the model file, to be kept with the map.
            progress: Called with the share of the work that is done, in [0, 1].
        """
        settings = settings or MapSettings()
        report = progress or (lambda _: None)
        order = np.argsort(-popularity, kind="stable")
        landmarks, others = np.split(order, [min(settings.landmarks, len(order))])
        marks = vectors.items(torch.from_numpy(landmarks)).cpu()  # (M, D)
        layout = _lay_out(marks, popularity[landmarks], settings, lambda done: report(done * _SHARE_OF_LAYOUT))
        places = np.empty((vectors.n_items, 2), dtype=np.float32)
        places[landmarks] = layout
        home, distance = _find_homes(
            vectors, others, marks, lambda done: report(_SHARE_OF_LAYOUT + done * (1 - _SHARE_OF_LAYOUT))
        )
        places[others] = _surround(layout, home, distance, vectors.n_items, settings.seed)
        report(1.0)
        return cls(places, model)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the map atomically."""
        write_tensors(
            path,
            {"places": self.places},
            {"format": MAP_FORMAT, "version": MAP_VERSION, "model": self.model},
        )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "ItemMap":
        """Read a file that `save` wrote."""
        arrays, manifest = read_tensors(path, MAP_FORMAT, MAP_VERSION, remedy="delete it, and it is drawn again")
        try:
            places = arrays["places"]
            if places.ndim != 2 or places.shape[1] != 2 or places.dtype != np.float32 or not np.isfinite(places).all():
                raise ValueError("its places are no finite (I, 2)")
            return cls(places, manifest["model"])
        except Exception as error:  # whatever forged content raises
            raise DataError(f"{path} is damaged ({describe_damage(error)}); delete it, and it is drawn again") from None


def find_near(rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k nearest other rows of each row (n, D), and their squared distances: (n, k), (n, k)."""
    near, distances = [], []
    for first in range(0, len(rows), _BLOCK):
        block = squared_distance(rows[first : first + _BLOCK], rows[None])  # (b, n)
        block[torch.arange(len(block)), torch.arange(first, first + len(block))] = torch.inf
        best = block.topk(k, largest=False)
        near.append(best.indices)
        distances.append(best.values)
    return torch.cat(near), torch.cat(distances).clamp_min(0)


def _lay_out(
    marks: Tensor, popularity: NDArray[np.int64], settings: MapSettings, report: Callable[[float], None]
) -> Places:
    """Return places (M, 2) of the landmarks (M, D)."""
    places = _begin(marks)
    if len(marks) < 2:
        return places
    ties = _tie(marks, settings.ties)
    law = np.cumsum(np.maximum(popularity, 1).astype(np.float64) ** settings.room)  # (M,)
    for sweep in range(settings.sweeps):
        draws = rng.stream(settings.seed, "map", sweep).random((len(marks), settings.pushes))
        pushers = np.searchsorted(law, draws * law[-1], side="right").clip(max=len(law) - 1).astype(np.int32)
        _move(places, ties, pushers, np.float32(1 - sweep / settings.sweeps))
        report((sweep + 1) / settings.sweeps)
    places -= np.median(places, axis=0)
    return places


def _begin(marks: Tensor) -> Places:
    """Return the landmarks (M, D) along their two principal directions: (M, 2)."""
    centred = marks - marks.mean(0)
    axes = torch.linalg.eigh((centred.T @ centred).double()).eigenvectors[:, -2:].flip(1).float()  # (D, 2)
    axes = axes * axes.gather(0, axes.abs().argmax(0, keepdim=True)).sign()  # either sign is an eigenvector
    places = centred @ axes
    scaled: Places = (places * (_BEGIN / places.square().mean().sqrt().clamp_min(1e-12))).numpy()
    return scaled


def _tie(marks: Tensor, ties: int) -> NDArray[np.int32]:
    """Return the landmarks (M, ties) that each of the landmarks (M, D) is tied to."""
    near, squared = find_near(marks, min(_CANDIDATES, len(marks) - 1))  # (M, C)
    scale = squared[:, _SCALE.start : _SCALE.stop] if squared.shape[1] > _SCALE.start else squared
    scale = scale.mean(1).sqrt().clamp_min(1e-6)  # (M,)
    scaled = squared / (scale[:, None] * scale[near])  # (M, C)
    chosen = scaled.topk(min(ties, scaled.shape[1]), largest=False).indices
    return near.gather(1, chosen).numpy().astype(np.int32)


@compiled(fastmath=True)
def _move(places: Places, ties: NDArray[np.int32], pushers: NDArray[np.int32], rate: np.float32) -> None:
    """Move every landmark once, at once: those that follow see it at its new place."""
    one, most, strength = np.float32(1), np.float32(4), np.float32(10 * ties.shape[1] / pushers.shape[1])
    for i in range(len(places)):
        x, y = places[i, 0], places[i, 1]
        for j in ties[i]:
            dx, dy = x - places[j, 0], y - places[j, 1]
            pull = rate / (one + dx * dx + dy * dy)
            dx, dy = min(max(dx * pull, -most), most), min(max(dy * pull, -most), most)
            x, y = x - dx, y - dy
            places[j, 0] += dx
            places[j, 1] += dy
        for j in pushers[i]:
            dx, dy = x - places[j, 0], y - places[j, 1]
            squared = dx * dx + dy * dy
            push = rate * strength / ((np.float32(0.01) + squared) * (one + squared))
            x, y = x + min(max(dx * push, -most), most), y + min(max(dy * push, -most), most)
        places[i, 0], places[i, 1] = x, y


def _find_homes(
    vectors: Vectors, others: NDArray[np.int64], marks: Tensor, report: Callable[[float], None]
) -> tuple[NDArray[np.int64], Places]:
    """Return the nearest landmark of each of the other items (n,), and its squared distance (n,)."""
    homes, distances = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.float32)]
    for first in range(0, len(others), _BLOCK):
        block = vectors.items(torch.from_numpy(others[first : first + _BLOCK])).cpu()  # (b, D)
        best = squared_distance(block, marks[None]).min(1)
        homes.append(best.indices.numpy())
        distances.append(best.values.numpy())
        report(min((first + _BLOCK) / len(others), 1.0))
    return np.concatenate(homes), np.concatenate(distances)


def _surround(layout: Places, home: NDArray[np.int64], distance: Places, n_items: int, seed: int) -> Places:
    """Return places (n, 2) around the landmarks (n,) of items, like the seeds of a sunflower, the nearest inside."""
    order = np.lexsort((distance, home))
    nth = np.arange(len(home)) - np.searchsorted(home[order], home[order]) + 1  # (n,) from 1, around each landmark
    low, high = np.percentile(layout, [5, 95], axis=0)
    spacing = _SPACING * np.sqrt((high - low).prod() / n_items)
    blur = rng.stream(seed, "map", 0, 0).standard_normal(len(home))
    radius = spacing * nth**_CROWDING * np.exp(_BLUR * blur)
    places = np.empty((len(home), 2), dtype=np.float32)
    turn = np.stack((np.cos(nth * _GOLDEN), np.sin(nth * _GOLDEN)), axis=1)  # (n, 2)
    places[order] = layout[home[order]] + radius[:, None] * turn
    return places
