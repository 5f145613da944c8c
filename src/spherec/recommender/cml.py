"""Collaborative metric learning: train on interactions, continue with new ones, answer, save."""

import warnings
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from inspect import Parameter, Signature, signature
from os import PathLike
from typing import Any, Self, TypedDict, Unpack, cast

import numpy as np

from spherec.artifact import WHOLE, Artifact, Portion
from spherec.data.features import Features
from spherec.data.ids import Ids, Unknown
from spherec.data.interactions import Interactions, Orientation, as_interactions
from spherec.data.notebook_table import NotebookTable
from spherec.device import DeviceName, enough_memory, resolve
from spherec.errors import ArgumentError, NothingNewWarning, check_number, quote, refuse_unknown
from spherec.evaluation.validation import hold_out
from spherec.geometry import Constraint, DenseVectors, check_finite
from spherec.losses import Loss
from spherec.optim import Adam
from spherec.ranking.index_file import IndexFiles, find_index
from spherec.recommender.gate import refuse_worse
from spherec.recommender.growth import (
    Growth,
    News,
    add_placed_items,
    add_users,
    fit_features,
    grow,
    merge,
    name_items,
    remove_rows,
    split_known,
    transform_features,
)
from spherec.recommender.progress import show_progress
from spherec.recommender.trained_model import ModelState, TrainedModel, look_up
from spherec.sampling import Sampling
from spherec.start import Start
from spherec.training import Crew, ProgressCallback, Run, RunFiles, Trained, Training, join, train
from spherec.training.config import DEFAULT_PRESET, advise, change_default, find_preset

_MOST_ADVICE = 2  # sentences for one run
_GATE_SHARE = 0.1  # of the new pairs, on which an update is measured


class CMLSettings(TypedDict, total=False):
    """Types of the settings, which `CML` explains."""

    dim: int
    subspace_dim: int | None
    constraint: Constraint
    reach: bool
    mainstream: float
    loss: Loss | Mapping[str, Any]
    sampler: Sampling | Mapping[str, Any]
    optimizer: Adam | Mapping[str, Any]
    start: Start | Mapping[str, Any]
    covariance: float
    spread_out: float
    balance: float
    feature_dropout: float
    batch_size: int
    epochs: int | None
    effort: float
    validate_every: int | None
    patience: int
    seed: int


class FitColumns(TypedDict, total=False):
    """Names of the columns of a data frame, or the orientation of a matrix."""

    user: str | None
    item: str | None
    name: str | None
    "Names of items."
    weight: str | None
    "Numbers by which pairs are weighed (counts of plays, ratings); those of repeated pairs add up."
    orientation: Orientation | None
    'Orientation of a matrix: "users x items" or "items x users".'


class DataOptions(FitColumns, total=False):
    """Everything that may be said about the data of a run."""

    item_features: Any
    """Features of the items, besides who has them: `Features`, a data frame with the ids in the column `item`, or a
    matrix with a row for each item of the data; a tuple of several is joined. Items may be without features. Items that
    only the features have are in the model, too, and are recommended by them."""
    names: Mapping[Any, str] | None
    "Names of items by their ids, for those that the data does not name, such as items that only the features have."


class UpdateOptions(DataOptions, total=False):
    """The same for an update, and what may stop it."""

    gate: float | None
    """Largest share by which the update may lower NDCG@50: 0.02 for two per cent. It is measured first, on a tenth of
    the new pairs of users and items that the model knows, by an update with the others, which doubles the time. Beyond
    it, a `WorseModelError` is raised, and the model stays as it is. By default nothing is measured."""


class TrainingOptions(TypedDict, total=False):
    """Parts with which a loaded model trains if it is fitted again."""

    device: DeviceName
    sampler: Sampling | None
    "A sampler of a class of your own, of which a file keeps the name and the settings only. The settings may be new."
    loss: Loss | None
    "The same for a loss of your own."


class CML(TrainedModel, NotebookTable):
    """Collaborative metric learning: users and items in one space, where a user's nearest items are recommended.

    Example:
        model = spherec.CML(dim=128, seed=1)
        model.fit(data)
        model.recommend("ann", k=10)

    The defaults are those of the preset "fast". With a loss or a sampler of your choice, such as
    `CML(loss=spherec.Hinge(margin=0.5))`, they are those of "two-stage", the paper's method. Begin from another with
    `CML.preset("accurate", dim=256)`. For `loss`, `sampler`, `optimizer` and `start`, a dict changes some fields and
    keeps the others, as `optimizer={"beta1": 0.8}`.

    Args:
        device: Where the model trains: "auto" (a GPU if there is one), "cpu" or "cuda".
        dim: Dimensions of the space. More dimensions fit more, and take more time and memory.
        subspace_dim: Largest number of dimensions of a subspace. The space is divided into equal subspaces that learn
            independently; a squared distance is the mean of theirs. None: one space.
        constraint: "sphere" keeps vectors on the unit sphere, "ball" inside the unit ball.
        reach: True gives each item a number that makes it reach more people, and lists a dial, `mainstream`.
        mainstream: The dial by default: 1 the most popular lists, 0 and below the long tail. Needs `reach`.
        loss: What is minimised: `Hinge` or `Softmin`.
        sampler: How negatives are drawn: `TwoStage`, `Uniform`, `Popularity`, `Hard` or `SemiHard`.
        optimizer: Learning rate and schedule, as a dict or a `spherec.optim.Adam`.
        start: First vectors: random, or in closed form with {"kind": "Ials"}, which takes seconds and makes few epochs
            enough; with `epochs=0` they are the model.
        covariance: Weight of the covariance penalty of the original CML.
        spread_out: Weight of the penalty that spreads vectors over the sphere.
        balance: Exponent ρ in [0, 1]. A pair weighs n^−ρ if its user has n items: 0 counts pairs alike, 1 users.
        feature_dropout: Share of the items that a step places by their features alone, if `fit` is given features.
        batch_size: Positive pairs in a step.
        epochs: Largest number of passes over the pairs. None: 100 epochs or 10,000 steps, whichever is more (30 or
            3,000 with `Softmin`).
        effort: Share of those epochs, if `epochs` is None.
        validate_every: Epochs between two validations. None: 2 epochs or 500 steps, whichever is more; with a
            learning-rate schedule only after the last epoch.
        patience: Validations without a new best after which training ends.
        seed: Seed of everything random. The same data, settings and device give the same model.
    """

    def __init__(self, *, device: DeviceName = "auto", **settings: Unpack[CMLSettings]) -> None:
        super().__init__()
        refuse_unknown("CML", settings, CMLSettings)
        self.device: DeviceName = device
        self.config = change_default(settings)
        resolve(device)  # a missing device is an error now, not after the data is read

    @classmethod
    def preset(cls, name: str, *, device: DeviceName = "auto", **changes: Any) -> Self:
        """Return an untrained model with the settings of a preset, and changes to them, as `CML` takes them.

        "fast" is the default, "accurate" has better lists for more time, "quick" good ones in seconds, and "two-stage"
        is the paper's method. For example `CML.preset("accurate", dim=256, loss={"gamma": 0.5})`.
        """
        return cls.from_config(find_preset(name).change(changes), device=device)

    @classmethod
    def from_config(cls, config: Training, *, device: DeviceName = "auto") -> Self:
        """Return an untrained model with these settings."""
        return cls(device=device, **vars(config))

    def fit(
        self,
        data: Any,
        *,
        validation: float | None = None,
        files: RunFiles | None = None,
        progress: bool | ProgressCallback | None = None,
        **about: Unpack[DataOptions],
    ) -> Self:
        """Train on interactions. Ctrl-C, SIGTERM and SIGHUP end training with the best model so far.

        Processes of torchrun or `torch.distributed` train one model together: all call `fit` with the same arguments.
        Process 0 has the model afterwards, shows progress and writes it.

        Args:
            data: `Interactions`, a pandas or polars data frame, a matrix, or a folder of partitions.
            validation: Share of each user's items that is held out to choose the best epoch and to stop early; 0 trains
                on everything. Default: 0.05, or 0 if the learning rate follows a schedule.
            files: Where the model and checkpoints are written, as in `files=RunFiles("books.spherec")`.
            progress: True shows a bar and advice about the settings, False nothing, None shows them in a terminal; or a
                function that is called with the epoch in progress and the history.
            about: `user`, `item`, `name`, `weight`, `orientation`, `item_features`, `names`: see `DataOptions`.
        """
        columns, content, names = _split_options("fit", about)
        if not isinstance(files, RunFiles | None):
            raise ArgumentError(f"files must be RunFiles, got {quote(files)}; give files=RunFiles(output)")
        crew, files = join(self.device, data), files or RunFiles()
        pairs, features = crew.take(data, **columns), None
        if content is not None:
            pairs, features = fit_features(content, pairs, columns.get("item"))
        pairs = pairs if names is None else name_items(pairs, names)
        with self._writing, files.open(crew):
            learned, validate = hold_out(pairs, self.config, validation, crew)
            shown, advice = progress if crew.is_first else False, advise(self.config, pairs)[:_MOST_ADVICE]
            with enough_memory(), show_progress(shown, self.config, learned, validate, advice) as callback:
                run = Run(learned, self.config, features=features, crew=crew)
                train(run, validate, files=files, progress=callback, save=partial(self._keep, pairs, run, files))
        return self

    def _keep(self, pairs: Interactions, run: Run, files: RunFiles, trained: Trained) -> None:
        """Take the result of a run on these pairs, and write it."""
        crew, features = run.crew, run.features
        if files.in_shards:
            shard = crew.save_share(files.output, lambda own: Artifact.of(trained, own, features), pairs)
            self._current = ModelState(shard)
            return
        vectors = crew.gather_vectors(trained.vectors, pairs)
        if crew.is_first:
            whole = Artifact.of(replace(trained, vectors=vectors), crew.whole(pairs), features)
            self._current = ModelState(whole)
            if files.output is not None:
                whole.save(files.output)

    def partial_fit(
        self,
        data: Any,
        *,
        validation: float | None = None,
        epochs: int | None = None,
        progress: bool | ProgressCallback | None = None,
        **about: Unpack[UpdateOptions],
    ) -> Self:
        """Continue training with new interactions, which may have new users and items.

        The model learns from old and new pairs together. Known users and items begin where they are, new users are
        folded in, new items begin among their users, or where their features place them. An index in use is dropped.
        Where nothing is new, the model stays as it is, with a `NothingNewWarning`.

        Args:
            data: New interactions, as in `fit`.
            validation: Share of the new pairs that is held out. Default: 0; if `epochs` is given, as in `fit`.
            epochs: Largest number of epochs. Default: as many as the new pairs need, from 3 for a handful to those of
                the first run; if `validation` is given, those of the first run.
            progress: As in `fit`.
            about: As in `fit`, and `gate`: see `UpdateOptions`. Weights of pairs that the model has already add up.
                `item_features` are those of new items and of changed ones: tables like those of `fit`.
        """
        gate, given = about.get("gate"), {name: value for name, value in about.items() if name != "gate"}
        columns, content, names = _split_options("partial_fit", cast("DataOptions", given))
        crew = join(self.device)
        if crew.size > 1:
            raise ArgumentError(f"partial_fit needs one process, and there are {crew.size}; call it without torchrun")
        new = as_interactions(data, **columns)
        with self._writing:
            state = self._state
            state.artifact.refuse_part("be trained")
            growth = merge(state.data, new)
            if content is None and not growth.is_news_to(state.artifact):
                warnings.warn(NothingNewWarning("there is nothing new in these interactions"), stacklevel=2)
                return self
            if gate is not None:
                check_number("gate", gate, 0, 1)
                rest, held = split_known(growth, state.artifact, new, _GATE_SHARE)
                if len(held):
                    trial = merge(state.data, rest)
                    refuse_worse(partial(_continue, state, trial, News(rest, content), crew, (epochs, 0.0)), held, gate)
            length, news = (epochs, validation), News(new, content)
            trained, grown, features, _ = _continue(state, growth, news, crew, length, progress)
            data = grown if names is None else name_items(grown, names)
            self._current = ModelState(Artifact.of(replace(trained, config=state.artifact.config), data, features))
        return self

    def remove_users(self, users: Ids) -> Self:
        """Take users out of the model: their rows, pairs and ids. What items have learned from them stays.

        An index in use is dropped. An id that the model does not know is an `UnknownIdError`.
        """
        return self._remove(users, ())

    def remove_items(self, items: Ids) -> Self:
        """Take items out of the model: their rows, pairs, ids, names and features, as `remove_users` does."""
        return self._remove((), items)

    def _remove(self, users: Ids, items: Ids) -> Self:
        with self._writing:
            state = self._state
            state.artifact.refuse_part("lose users or items")
            gone = look_up(users, state, "user", "error"), look_up(items, state, "item", "error")
            self._current = ModelState(remove_rows(state.artifact, *map(np.unique, gone)))
        return self

    def fold_in(self, data: Any, *, unknown: Unknown = "error", **columns: Unpack[FitColumns]) -> "CML":
        """Return another model that also knows the users of `data`, placed by their items. No item moves.

        A user whom the model knows already is placed anew, by old and new items together. An index in use serves the
        new model, too.

        Data and columns are as in `fit`. Items that the model does not know are an `UnknownIdError`, or are skipped.
        """
        refuse_unknown("fold_in", columns, FitColumns)
        new = as_interactions(data, **columns)
        state = self._state
        known = state.data.item_ids
        if unknown == "skip":
            new = new.filter(known.find(new.item_ids)[new.indices] >= 0)
        used = [new.item_ids[int(index)] for index in np.flatnonzero(new.users_per_item)]
        look_up(used, state, "item", unknown)
        grown = add_users(state.artifact, merge(state.data, new), state.fold_in)
        check_finite(grown.vectors)
        index = None if state.index is None else state.index.with_vectors(grown.vectors)
        model = CML.from_config(grown.config, device=self.device)
        model._current = ModelState(grown, index)
        return model

    def add_items(
        self,
        *tables: Any,
        item_ids: Iterable[Hashable] | None = None,
        names: Mapping[Any, str] | None = None,
    ) -> Self:
        """Add items that nobody has yet, placed by their features, without training. No vector moves.

        The model must have been fitted with features. The new items are recommended, explained, exported and saved as
        all others; once they have interactions, `partial_fit` learns more about them. An index in use takes them in.

        Args:
            tables: A data frame or matrix like that of `fit`, of joined features one for each; or the `Features` that
                their transformation made. Words, tags and categories that it does not know are ignored, with an
                `UnknownContentWarning`.
            item_ids: The ids of the rows, for matrices.
            names: Names of the new items by their ids.
        """
        with self._writing:
            state, artifact = self._state, self._state.artifact
            artifact.refuse_part("take new items")
            grown = add_placed_items(artifact, transform_features(artifact, tables, item_ids))
            grown = grown if names is None else replace(grown, data=name_items(grown.data, names))
            index = None if state.index is None else state.index.extend(grown.vectors)
            self._current = ModelState(grown, index)
        return self

    def __repr__(self) -> str:
        loss, sampler, state = type(self.config.loss).__name__, type(self.config.sampler).__name__, self._current
        knows = "not trained" if state is None else f"{state.data.n_users:,} users, {state.data.n_items:,} items"
        return f"CML({loss}, {sampler}, dim={self.config.dim}: {knows})"

    def _list_columns(self) -> dict[str, list[Any]]:
        sizes = {"users": self.data.n_users, "items": self.data.n_items} if self._current else {"users": "not trained"}
        table = {"loss": type(self.config.loss).__name__, "dim": self.config.dim, **sizes}
        return {name: [value] for name, value in table.items()}

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        index: bool | IndexFiles = False,
        mmap: bool = False,
        users: Portion = WHOLE,
        items: Portion = WHOLE,
        **training: Unpack[TrainingOptions],
    ) -> Self:
        """Load a model from a file that `save` or `spherec train` wrote, whole or in part.

        Args:
            path: The model file. It is read into memory, so that nothing that happens to the file reaches the model.
            index: An index file to answer through, or those of all parts of the items; True is the file next to the
                model, books.usearch for books.spherec, or the files of its parts, books.0-of-4.usearch and so on.
            mmap: Map vectors and index from their files instead of reading them into memory, so that processes share
                one copy. The files must then be replaced atomically, as `save` does, never overwritten.
            users: (j, m) loads one of m parts of the users, j = 0 … m − 1, with their vectors and items. A part of a
                model answers for its users and its items; it cannot place new users, be saved or be trained.
            items: The same for items: their vectors, and the pairs with them.
            training: `device`, `sampler` and `loss` for further training: see `TrainingOptions`.
        """
        refuse_unknown("load", training, TrainingOptions)
        content = Artifact.load(path, mmap=mmap, users=users, items=items)
        config = content.config
        given = {name: part for name in ("sampler", "loss") if (part := training.get(name)) is not None}
        for name, part in given.items():
            kind, recorded = type(part).__name__, config.to_dict()[name]["kind"]
            if kind != recorded:
                raise ArgumentError(f"the model was trained with the {name} {recorded}, got {kind}; pass that class")
        model = cls.from_config(config.change(given), device=training.get("device", "auto"))
        model._current = ModelState(replace(content, config=model.config))
        if index is not False:
            model.use_index(find_index(path) if index is True else index, mmap=mmap)
        return model


# `help(CML)` shows every setting with its default.
_SETTINGS = [
    Parameter(name, Parameter.KEYWORD_ONLY, default=value) for name, value in vars(find_preset(DEFAULT_PRESET)).items()
]
_GIVEN = list(signature(CML.__init__).parameters.values())[:-1]
CML.__init__.__signature__ = Signature([*_GIVEN, *_SETTINGS])  # type: ignore[attr-defined]


def _continue(
    state: ModelState,
    growth: Growth,
    news: News,
    crew: Crew,
    length: tuple[int | None, float | None],
    progress: bool | ProgressCallback | None = False,
) -> tuple[Trained, Interactions, Features | None, DenseVectors]:
    """Train with old and new pairs, for so many epochs and with such a share of new pairs to validate on.

    Return the result, all pairs, the features, and the vectors that it began with.
    """
    growth, initial, features, learned = grow(state.artifact, growth, news, state.fold_in)
    settings = state.artifact.config  # with the temperature of the first run, before and after `load`
    config, share = growth.plan(settings, *length)
    pairs, validate = growth.hold_out(config, share)
    with enough_memory(), show_progress(progress, config, pairs, validate) as callback:
        trained = train(Run(pairs, config, initial, features, learned, crew), validate, progress=callback)
    return trained, growth.data, features, initial


def _split_options(method: str, about: DataOptions) -> tuple[FitColumns, Any, Mapping[Any, str] | None]:
    """Return the columns of the data, the features of its items and their names."""
    refuse_unknown(method, about, DataOptions)
    columns = {name: value for name, value in about.items() if name in FitColumns.__annotations__}
    return cast("FitColumns", columns), about.get("item_features"), about.get("names")
