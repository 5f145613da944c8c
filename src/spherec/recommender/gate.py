"""A gate for updates: one that makes lists worse, measured on a part of the new pairs, is refused."""

from collections.abc import Callable
from dataclasses import replace

from spherec.data.features import Features
from spherec.data.interactions import Interactions, row_starts
from spherec.errors import WorseModelError
from spherec.evaluation.validation import VALIDATION_METRIC, Validation
from spherec.geometry import DenseVectors
from spherec.training import Trained

UpdateTrial = Callable[[], tuple[Trained, Interactions, Features | None, DenseVectors]]
"""Makes an update without the pairs held out; returns it, all pairs, the features and the first vectors."""


def refuse_worse(trial: UpdateTrial, held: Interactions, gate: float) -> None:
    """Raise a `WorseModelError` if the update lowers NDCG@50 on the pairs held out by more than the share `gate`."""
    trained, data, _, first = trial()
    held = replace(
        held,
        indptr=row_starts(held.users, data.n_users),
        user_ids=data.user_ids,
        item_ids=data.item_ids,
        item_names=None,
    )
    validate = Validation(data, held)
    before, after = validate(first), validate(trained.vectors)
    if after < (1 - gate) * before:
        raise WorseModelError(
            f"the update would lower {VALIDATION_METRIC} from {before:.4f} to {after:.4f} on {len(held):,} new pairs, "
            f"more than the gate {gate:g} allows; the model stays as it is"
        )
