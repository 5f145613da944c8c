"""`spherec update` and `spherec remove`: learn from new events, and take users and items out."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import typer

from spherec.cli._features import read_new_features
from spherec.cli._options import Device, Force, group, option, refuse_output
from spherec.cli._output import note, show
from spherec.cli._source import Source, read_kind_weights, read_pairs
from spherec.cli.recommend import split_ids
from spherec.data.event_store import Event, EventStore
from spherec.data.event_weights import EventWeights
from spherec.data.events import Events
from spherec.data.ids import IdMap, spell_like
from spherec.data.interactions import Interactions
from spherec.data.output_files import lock_output
from spherec.errors import ArgumentError, EmptyFileError
from spherec.recommender import CML

_Model = typer.Argument(..., metavar="MODEL", help="Model file from 'spherec train'.")


@group
class ChangedModel:
    """Options of commands that change a model."""

    output: Path = option("Model file to write; may be MODEL itself.", "FILE", "--output", "-o", default=...)
    force: Force = False

    @contextmanager
    def open(self, model: Path, device: str = "cpu") -> Iterator[CML]:
        """Load the model, and save it at the end of this block. The output is replaced as a whole, or not at all."""
        with lock_output(self.output):
            refuse_output(self.output, self.force)
            loaded = CML.load(model, device=device)  # type: ignore[arg-type]
            yield loaded
            loaded.save(self.output)
        counts = f"{loaded.data.n_users:,} users, {loaded.data.n_items:,} items, {len(loaded.data):,} pairs"
        show(f"{self.output} has {counts}")


def update_command(
    model: Path = _Model,
    gate: float | None = option(
        "Refuse an update that lowers NDCG@50 by more than this share, measured on new pairs.", "SHARE"
    ),
    epochs: int | None = option("Most passes over the pairs. Default: by the share of new pairs.", "N"),
    item_features: list[Path] | None = option(
        "Features of new and of changed items: files like those of training.", "FILE"
    ),
    event_weights: str | None = option(
        "Of a server's store: weight of each kind that counts, view=1,buy=9.", "KIND=N,…"
    ),
    cancels: str | None = option("Of a server's store: kinds that take back another: refund=buy.", "KIND=KIND,…"),
    device: Device = "auto",
    *,
    source: Source,
    changed: ChangedModel,
) -> None:
    """New pairs bring new users and items. Where nothing is new, the model stays as it is. DATA may be the store of
    'spherec serve --events': its new events are read, and marked when the model is saved. Examples:

    - spherec update books.spherec today.csv -o books.spherec --force
    - spherec update books.spherec today.csv -o books.spherec --force --gate 0.05
    - spherec update books.spherec events.db -o books.spherec --force
    """
    is_store = len(source.data) == 1 and EventStore.is_here(source.data[0])
    rules = {"weights": read_kind_weights(event_weights), "cancels": read_pairs("--cancels", cancels)}
    weigher = EventWeights.of({**rules, "event": "kind" if event_weights else None})
    if not is_store and weigher is not None:
        raise ArgumentError("--event-weights is for a server's store here; for files run spherec data prepare with it")
    store = EventStore(source.data[0]).read_new() if is_store else nullcontext()
    with store as events, changed.open(model, device) as loaded:  # saved, then marked
        known, features = loaded.data, loaded.artifact.features
        if item_features and features is None:
            raise ArgumentError(f"{model} was trained without item features; leave out --item-features")
        described = read_new_features(item_features, features) if item_features and features is not None else None
        try:
            weigh = known.weights is not None
            data = source.load(weigh=weigh) if events is None else _merge(events, weigh, weigher)
        except EmptyFileError as error:  # of a quiet day
            note(f"nothing new: {error}")
            return
        ids = (data.user_ids, known.user_ids), (data.item_ids, known.item_ids)
        users, items = (IdMap(spell_like(new, old.array)) for new, old in ids)
        data = replace(data, user_ids=users, item_ids=items)
        loaded.partial_fit(data, epochs=epochs, gate=gate, item_features=described, progress=True)
    now = loaded.data
    added = {"users": now.n_users - known.n_users, "items": now.n_items - known.n_items, "pairs": len(now) - len(known)}
    show(", ".join(f"{count:,} new {what}" for what, count in added.items()))


def _merge(log: list[Event], weigh: bool, weigher: EventWeights | None) -> Interactions:
    """Return the pairs of events from a store; their number is their weight unless kinds have weights."""
    if not log:
        raise EmptyFileError("the store has no events that were not read before")
    users, items, kinds, times = zip(*log, strict=True)
    events = Events.from_columns(users, items, times=times)
    events = events.merge("sum") if weigher is None else weigher(weigher.select(events, kinds))
    return Interactions.from_events(events, weigh=weigh)


def remove_command(
    model: Path = _Model,
    users: str | None = option("Users to take out: comma-separated, or @FILE.", "IDS"),
    items: str | None = option("Items to take out, likewise.", "IDS"),
    skip_unknown: bool = option("Skip ids that the model does not know.", None, "--skip-unknown", default=False),
    *,
    changed: ChangedModel,
) -> None:
    """Rows, pairs, ids and names go. What the other rows have learned from them stays; train anew for that. Example:

    - spherec remove books.spherec --users 247752 -o books.spherec --force
    """
    if users is None and items is None:
        raise ArgumentError("say whom or what to remove: --users, --items")
    with changed.open(model) as loaded:
        for text, known, remove in (
            (users, loaded.data.user_ids, loaded.remove_users),
            (items, loaded.data.item_ids, loaded.remove_items),
        ):
            gone = split_ids(text, known) or []
            there = [one for one in gone if one in known] if skip_unknown else gone
            if len(there) < len(gone):
                note(f"{len(gone) - len(there):,} of {len(gone):,} ids are not in the model")
            remove(there)
