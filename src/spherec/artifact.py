"""A trained model as one self-contained file: vectors, ids, names, what each user has, and how it was made.

A safetensors file without pickle, laid out in docs/artifact.md. DenseVectors are mapped from it, not copied.
"""

from dataclasses import dataclass
from os import PathLike
from typing import get_args

import torch

from spherec import tensor_file
from spherec.data import files
from spherec.data.ids import IdMap
from spherec.data.interactions import Interactions
from spherec.errors import DataError
from spherec.geometry import DenseVectors
from spherec.training import History, Trained, Training
from spherec.training.trainer import Ended

FORMAT = "spherec-model"
VERSION = 1


@dataclass(frozen=True)
class Artifact:
    """What a model file holds."""

    vectors: DenseVectors
    "Of users and items, on the CPU."
    data: Interactions
    "The users and items with their ids and names, and what each user had when the model was trained."
    config: Training
    "How it was trained."
    history: History
    "What happened, epoch by epoch."
    ended: Ended
    "Why training ended."
    checksum: str | None = None
    "Of the file that it was loaded from."

    @classmethod
    def of(cls, trained: Trained, data: Interactions) -> "Artifact":
        """What a run on `data` left."""
        vectors = trained.vectors.to(torch.device("cpu"))
        return cls(vectors, data, trained.config, trained.history, trained.ended)


def save(path: str | PathLike[str], artifact: Artifact) -> None:
    """Write the model, whole or not at all. The same model gives the same bytes."""
    data = artifact.data
    arrays = {
        "item_vectors": artifact.vectors.item_table.numpy(),  # (I, D) first, where it is aligned best
        "user_vectors": artifact.vectors.user_table.numpy(),  # (U, D)
        "indptr": data.indptr,
        "indices": data.indices,
    }
    arrays |= files.encode_ids(data.user_ids, "user_ids")
    arrays |= files.encode_ids(data.item_ids, "item_ids")
    if data.item_names is not None:
        arrays |= files.encode_names(data.item_names, "item_names")
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "config": artifact.config.to_dict(),
        "history": artifact.history.as_records(),
        "ended": artifact.ended,
    }
    tensor_file.write(path, arrays, manifest)


def load(path: str | PathLike[str]) -> Artifact:
    """Read a file that `save` wrote."""
    arrays, manifest = tensor_file.read(path, FORMAT, VERSION, remedy="train it again")
    try:
        users, items = (torch.from_numpy(arrays[name]) for name in ("user_vectors", "item_vectors"))
        data = Interactions(
            indptr=arrays["indptr"],
            indices=arrays["indices"],
            user_ids=IdMap(files.decode_ids(arrays, "user_ids")),
            item_ids=IdMap(files.decode_ids(arrays, "item_ids")),
            item_names=files.decode_names(arrays, "item_names"),
        )
        config = Training.from_dict(manifest["config"])
        vectors = DenseVectors(users, items, config.constraint).check_finite()
        if (len(users), len(items), config.dim) != (data.n_users, data.n_items, items.shape[1]):
            raise ValueError(f"{(*users.shape,)} and {(*items.shape,)} vectors for {data}")
        if manifest["ended"] not in get_args(Ended):
            raise ValueError(f"it ended with {manifest['ended']!r}")
        history = History.from_records(manifest["history"])
        return Artifact(vectors, data, config, history, manifest["ended"], manifest["checksum"])
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise DataError(f"{path} is damaged ({error}); train it again") from None
