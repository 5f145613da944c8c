"""A trained model as one file: vectors, ids, names, what each user has, and how it was made."""

from dataclasses import dataclass
from os import PathLike
from typing import Any

import torch

from spherec.data import archive, text_arrays
from spherec.data.ids import IdMap
from spherec.data.interactions import Interactions
from spherec.errors import DataError
from spherec.geometry import Vectors
from spherec.model import MetricModel
from spherec.training import Trained

FORMAT = "spherec-model"
VERSION = 1


@dataclass(frozen=True)
class Artifact:
    """What a model file holds."""

    vectors: Vectors
    "Of users and items, on the CPU."
    data: Interactions
    "The users and items with their ids and names, and what each user had when the model was trained."
    manifest: dict[str, Any]
    "How it was made: config, history, why training ended."


def save(path: str | PathLike[str], trained: Trained, data: Interactions) -> None:
    """Write the model, whole or not at all: an .npz archive that NumPy alone can read."""
    vectors = trained.model.vectors
    arrays = {
        "user_vectors": vectors.user_table.cpu().numpy(),  # (U, D)
        "item_vectors": vectors.item_table.cpu().numpy(),  # (I, D)
        "indptr": data.indptr,
        "indices": data.indices,
    }
    arrays |= text_arrays.encode_ids(data.user_ids, "user_ids")
    arrays |= text_arrays.encode_ids(data.item_ids, "item_ids")
    if data.item_names is not None:
        arrays |= text_arrays.encode_names(data.item_names, "item_names")
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "config": trained.config.described(),
        "history": trained.history.as_records(),
        "ended": trained.ended,
    }
    archive.write(path, arrays, manifest, compress=False)


def load(path: str | PathLike[str]) -> Artifact:
    """Read a file that `save` wrote."""
    arrays, manifest = archive.read(path, FORMAT, VERSION, remedy="train it again")
    try:
        users, items = (torch.tensor(arrays[name]) for name in ("user_vectors", "item_vectors"))
        data = Interactions(
            indptr=arrays["indptr"],
            indices=arrays["indices"],
            user_ids=IdMap(text_arrays.decode_ids(arrays, "user_ids")),
            item_ids=IdMap(text_arrays.decode_ids(arrays, "item_ids")),
            item_names=text_arrays.decode_names(arrays, "item_names"),
        )
        vectors = Vectors(users, items, manifest["config"]["constraint"])
        MetricModel(users, items, vectors.constraint)  # checks them
        if (len(users), len(items), users.shape[1]) != (data.n_users, data.n_items, items.shape[1]):
            raise ValueError(f"{(*users.shape,)} and {(*items.shape,)} vectors for {data}")
        return Artifact(vectors, data, manifest)
    except (KeyError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise DataError(f"{path} is damaged ({error}); train it again") from None
