"""A model to work with: learn from interactions, go on with new ones, answer, save."""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from spherec import artifact
from spherec.artifact import Artifact
from spherec.data.files import refuse_unwritable
from spherec.data.frames import Orientation, as_interactions
from spherec.device import DeviceName, resolve
from spherec.errors import ArgumentError, suggest
from spherec.memory import enough_memory
from spherec.ranking import index_file
from spherec.recommender.answers import Answers
from spherec.recommender.asking import Unknown, indices_of
from spherec.recommender.fitting import Watching, held_out, share_of, watched
from spherec.recommender.growing import joined, start_of, with_users
from spherec.recommender.searching import ItemSearch
from spherec.training import Training, train
from spherec.training.presets import PRESETS

if TYPE_CHECKING:
    from spherec.ranking.usearch import Hnsw  # an extra


class CML(Answers):
    """Collaborative metric learning: users and items in one space, where a user's nearest items are recommended.

    `CML(dim=64, loss=Hinge(), sampler=TwoStage(negatives=5), seed=1)`: settings are the fields of `training.Training`,
    beginning from a preset ("two-stage" if nothing is said). A dict changes fields of a part and leaves the others as
    the preset has them: `CML(preset="accurate", loss={"gamma": 0.5})`. `device` is where it trains.
    """

    def __init__(self, *, preset: str = "two-stage", device: DeviceName = "auto", **settings: Any) -> None:
        if preset not in PRESETS:
            raise ArgumentError(f"preset must be one of {', '.join(PRESETS)}, got {preset!r}{suggest(preset, PRESETS)}")
        base = PRESETS[preset].training
        for name in settings:
            _refuse_unknown(name, base)
        super().__init__(None)
        settings = {name: _plain(value) for name, value in settings.items()}
        changes = {name: value for name, value in settings.items() if isinstance(value, Mapping)}
        rest = {name: value for name, value in settings.items() if name not in changes}
        self.config = replace(base.change(changes), **rest)
        self.device: DeviceName = device
        resolve(device)  # a device that is not there is told now, not after the data is read

    def fit(
        self,
        data: Any,
        *,
        user: str | None = None,
        item: str | None = None,
        orientation: Orientation | None = None,
        validation: float | None = None,
        progress: Watching = None,
    ) -> Self:
        """Learn from Interactions, from the columns `user` and `item` of a data frame, or from a matrix.

        What a matrix's rows and columns are must be said: orientation="users x items" or "items x users".

        A share `validation` of each user's items is held out to choose the best epoch and to know when to stop; 0
        trains on everything for all epochs. If nothing is said, 0.05; but 0 with a learning rate that falls along a
        schedule, which is run to its end. Ctrl-C ends training with the best model so far. `progress` shows a bar: in a
        terminal if nothing is said.
        """
        interactions = as_interactions(data, user=user, item=item, orientation=orientation)
        learned, validate = held_out(interactions, self.config, validation)
        with enough_memory(), watched(progress, self.config, len(learned)) as tell:
            trained = train(learned, self.config, validate=validate, device=resolve(self.device), progress=tell)
        self._set(Artifact.of(trained, interactions))
        return self

    def partial_fit(
        self,
        data: Any,
        *,
        user: str | None = None,
        item: str | None = None,
        orientation: Orientation | None = None,
        validation: float | None = None,
        epochs: int | None = None,
        progress: Watching = None,
    ) -> Self:
        """Go on learning, from all that the model has learned and from new interactions, with new users and items.

        What the model knows begins where it is; new users are folded in, new items begin among their users. The share
        `validation`, as in `fit`, is held out of the new pairs alone, for no vector has seen those. `epochs` bounds
        this run.
        """
        new = as_interactions(data, user=user, item=item, orientation=orientation)
        config = self.config if epochs is None else replace(self.config, epochs=epochs)
        growth = joined(self.data, new)
        start = start_of(growth, self._made, self._placing)
        learned, validate = growth.held_out(config, share_of(config, validation))
        where = resolve(self.device)
        with enough_memory(), watched(progress, config, len(learned)) as tell:
            trained = train(learned, config, validate=validate, device=where, initial=start, progress=tell)
        self._set(Artifact.of(replace(trained, config=self.config), growth.data))
        return self

    def fold_in(
        self,
        data: Any,
        *,
        user: str | None = None,
        item: str | None = None,
        orientation: Orientation | None = None,
        unknown: Unknown = "error",
    ) -> "CML":
        """Another model that knows the users of `data`, too, placed by their items. No item moves.

        A user whom the model knows already is placed anew, by old and new items together. Items that the model does
        not know are an error, or passed over with `unknown="skip"`.
        """
        new = as_interactions(data, user=user, item=item, orientation=orientation)
        known = self.data.item_ids
        if unknown == "skip":
            new = new.filter(known.find(new.item_ids)[new.indices] >= 0)
        used = [new.item_ids[int(index)] for index in np.flatnonzero(new.users_per_item)]
        indices_of(used, known, "item", unknown)
        model = self._of(with_users(self._made, joined(self.data, new), self._placing), self.device)
        model._search = ItemSearch(model.vectors, self._search.index)
        return model

    def build_index(
        self,
        path: str | PathLike[str] | None = None,
        config: "Hnsw | None" = None,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> Self:
        """Build an index of the items and answer through it; saved at `path`, if one is given.

        For catalogues of hundreds of thousands of items and more; needs the extra "ann". `config` says how it is built
        and searched, `progress` is called with (done, all).
        """
        from spherec.ranking.usearch import UsearchRanker  # an extra

        if path is not None:
            refuse_unwritable(path)
        index = UsearchRanker.build(self.vectors, config, progress=progress)
        if path is not None:
            index.save(path)
        self._search = ItemSearch(self.vectors, index)
        return self

    def use_index(self, path: str | PathLike[str] | None, *, width: float | None = None) -> Self:
        """Answer through the index in a file; None: look at all items again, as a model does by itself.

        `recommend`, `recommend_for` and `similar_items` go through it, with the same scores; an item may be missed,
        the fewer the larger the `width` of the search. The index of other items than the model's is an error, and
        `fit` and `partial_fit` drop the one in use.
        """
        if path is None:
            self._search = ItemSearch(self.vectors)
            return self
        from spherec.ranking.usearch import UsearchRanker  # an extra

        self._search = ItemSearch(self.vectors, UsearchRanker.load(path, self.vectors, width=width))
        return self

    def __repr__(self) -> str:
        loss, sampler = type(self.config.loss).__name__, type(self.config.sampler).__name__
        knows = "not trained" if self._artifact is None else f"{self.data.n_users:,} users, {self.data.n_items:,} items"
        return f"CML({loss}, {sampler}, dim={self.config.dim}: {knows})"

    @classmethod
    def load(
        cls, path: str | PathLike[str], *, index: bool | str | PathLike[str] = False, device: DeviceName = "auto"
    ) -> Self:
        """The model in a file that `save` or `spherec train` wrote.

        It answers through an `index` in a file, if one is named, as `use_index` says; True is the file beside the
        model, books.usearch for books.spherec.
        """
        model = cls._of(artifact.load(path), device)
        if index is not False:
            model.use_index(index_file.beside(path) if index is True else index)
        return model

    @classmethod
    def _of(cls, made: Artifact, device: DeviceName) -> Self:
        model = cls(device=device)
        model.config = made.config
        model._set(made)
        return model


def _refuse_unknown(name: str, base: Training) -> None:
    """Raises an `ArgumentError` unless the name is a field of a config; one that a part has leads to that part."""
    names = [field.name for field in fields(base)]
    if name in names:
        return
    for part in ("loss", "sampler", "optimizer"):
        if name in (field.name for field in fields(getattr(base, part))):
            raise ArgumentError(f"{name!r} is not a setting; give {part}={{{name!r}: …}}")
    raise ArgumentError(f"{name!r} is not a setting{suggest(name, names)}; there are {', '.join(names)}")


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, also among the fields of a part."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return value.item() if isinstance(value, np.generic) else value
