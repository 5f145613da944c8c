"""A trained model as one file: vectors, ids, names, what each user has, and how it was made."""

from os import PathLike

from spherec.data import archive, text_arrays
from spherec.data.interactions import Interactions
from spherec.training import Trained, Training

FORMAT = "spherec-model"
VERSION = 1


def save(path: str | PathLike[str], trained: Trained, data: Interactions, config: Training) -> None:
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
        "config": config.described(),
        "history": trained.history.as_records(),
        "ended": trained.ended,
    }
    archive.write(path, arrays, manifest, compress=False)
