"""Answers to requests, as plain data: look ids up, have lists ranked, name items."""

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherec._version import __version__
from spherec.artifact import Artifact
from spherec.data.output_files import lock_output
from spherec.errors import ArgumentError, LockedOutputError, SpherecError
from spherec.geometry import check_mainstream
from spherec.ranking import Ranking
from spherec.ranking.ranker import refuse_idle_dial
from spherec.recommender import CML
from spherec.serve.batcher import Batcher, BusyError, Query, RankedList
from spherec.serve.guard import LOG
from spherec.serve.metrics import Metrics
from spherec.serve.options import ServeOptions
from spherec.serve.schema import AddBody, RecommendBody, ScoreBody
from spherec.serve.served_model import ServedModel, Stamp, stamp_files, to_json

_LARGEST = 1_000_000  # number in a vector: squares stay finite
_REASONS = 3  # for each item, if their number is not given
_LONGEST_TURN = 10.0  # seconds to wait for another process that replaces the model file


class ForbiddenError(SpherecError, RuntimeError):
    """The server has not been started for this."""


class Service:
    """Answers from the current model, and replaces it when its file is replaced.

    A request reads the current model once. So its answer comes from one version, whatever happens meanwhile.
    """

    def __init__(self, options: ServeOptions, served: ServedModel | None, metrics: Metrics) -> None:
        self.options = options
        self._metrics = metrics
        self._served = served
        self._stamp: Stamp = () if served is None else served.stamp
        threads = options.threads or max((os.cpu_count() or 1) // options.workers - 1, 1)
        self.batcher = Batcher(threads, batch=options.batch, window=options.window, queue=options.queue)
        self._adding = asyncio.Lock()
        self._loading = asyncio.Lock()

    @property
    def served(self) -> ServedModel:
        """The current version of the model."""
        if self._served is None:
            raise BusyError("the model is not loaded yet; ask again in a second")
        return self._served

    @property
    def is_loaded(self) -> bool:
        """Tell whether there is a model to answer from."""
        return self._served is not None

    async def refresh(self) -> bool:
        """Load the files anew if they were replaced, and put the new version in place; return whether there is one.

        A version that cannot be loaded raises a `SpherecError`, once for each change of the files; the old one stays.
        """
        async with self._loading:
            stamp = stamp_files(self.options)
            if stamp == self._stamp:
                return False
            self._stamp = stamp
            self._served = await asyncio.to_thread(ServedModel.load, self.options)
            return True

    async def pick_up(self) -> None:
        """Put a new version in place if the files were replaced; whatever is wrong with it goes to the log."""
        try:
            if await self.refresh():
                self._metrics.count_swap()
                LOG.info("new model in place", extra={"fields": {"model": self.served.checksum}})
        except Exception as error:  # the old model answers, and the next file may be good
            self._metrics.count_swap(failed=True)
            cause = str(error) if isinstance(error, SpherecError) else f"{type(error).__name__}: {error}"
            LOG.error("the new model cannot be used; the old one stays", extra={"fields": {"cause": cause}})

    async def recommend(self, body: RecommendBody) -> dict[str, Any]:
        """Return a list for each user, for the new user, and for each vector."""
        served, vectors = self.served, self.served.model.vectors
        self._check_list(body.k, body.offset)
        reasons = _REASONS if body.explain is True else int(body.explain)
        n_lists = len(body.users) + bool(body.items) + len(body.vectors)
        if not n_lists:
            raise ArgumentError("a request needs users, items of a new user, or vectors; it has none of them")
        self._check_count("lists", n_lists, self.options.max_lists)
        self._check_count("items of all lists, with reasons,", n_lists * body.k * (1 + reasons), self.options.max_items)
        for name, ids in (("items", body.items), ("only", body.only or ()), ("exclude", body.exclude)):
            self._check_count(name, len(ids), self.options.max_ids)
        _check_dial(body.mainstream, served)
        only = None if body.only is None else np.unique(served.find_items(body.only, body.unknown))
        if body.filter:
            allowed = served.select(body.filter)
            only = allowed if only is None else np.intersect1d(only, allowed, assume_unique=True)
        exclude = np.unique(served.find_items(body.exclude, body.unknown)) if body.exclude else _NOTHING
        users = served.find_users(body.users, body.unknown)  # (n,)
        places: list[tuple[NDArray[np.float32] | None, NDArray[np.int64]]] = [
            (vectors.user_table[user].numpy(), served.model.data.items_of(user).astype(np.int64))
            for user in users.tolist()
        ]
        if body.items:
            own = np.unique(served.find_items(body.items, body.unknown))
            if not len(own):
                raise ArgumentError("items must have at least one item that the model knows, got none")
            places.append((None, own))
        for vector in body.vectors:
            if len(vector) != vectors.dim:
                raise ArgumentError(f"vectors must have {vectors.dim} numbers each, got one with {len(vector)}")
            place = np.array(vector, dtype=np.float32)
            if not np.abs(place).max(initial=0.0) <= _LARGEST:
                raise ArgumentError(f"vectors must have numbers from {-_LARGEST:,} to {_LARGEST:,}")
            places.append((place, _NOTHING))
        queries = [
            Query(
                served,
                vector,
                body.k,
                body.offset,
                own,
                (np.union1d(own, exclude) if len(exclude) else own) if body.exclude_seen else exclude,
                only,
                body.mainstream,
                reasons,
            )
            for vector, own in places
        ]
        ranked = await self.batcher.rank(queries) if queries else []
        names: list[Any] = [to_json(one) for one in served.model.data.user_ids.array[users].tolist()]
        names += [None] * (len(ranked) - len(names))
        lists = [{"user": user, "items": _list_items(served, one)} for user, one in zip(names, ranked, strict=True)]
        return {"model": served.checksum, "lists": lists}

    async def similar(self, item: str, k: int, offset: int) -> dict[str, Any]:
        """Return the items nearest to an item; reach does not count."""
        served = self.served
        self._check_list(k, offset)
        (index,) = served.find_items([item]).tolist()
        vector = served.model.vectors.item_table[index].numpy()
        query = Query(served, vector, k, offset, left_out=np.array([index]), mainstream=0.0)
        (ranked,) = await self.batcher.rank([query])
        (about,) = served.describe_items(np.array([index]))
        return {"model": served.checksum, "item": about, "items": _list_items(served, ranked)}

    def explain(self, user: str, item: str, k: int) -> dict[str, Any]:
        """Return the user's own items that are nearest to an item, and the score of the item."""
        served = self.served
        self._check_count("k", k, self.options.max_k)
        who, what = served.find_users([user]), served.find_items([item])
        data, model = served.model.data, served.model
        external_user, external_item = data.user_ids[int(who[0])], data.item_ids[int(what[0])]
        because = model.explain(external_user, external_item, k)
        index = data.item_ids.find(because.columns["because"])
        (about,) = served.describe_items(what)
        return {
            "model": served.checksum,
            "user": to_json(external_user),
            "item": about,
            "score": float(model.score([external_user], [external_item])[0]),
            "because": _score_items(served, index, because.columns["score"]),
        }

    def score(self, body: ScoreBody) -> dict[str, Any]:
        """Return the scores of pairs."""
        served = self.served
        for name, ids in (("users", body.users), ("items", body.items)):
            self._check_count(name, len(ids), self.options.max_ids)
        _check_dial(body.mainstream, served)
        data = served.model.data
        users = data.user_ids.array[served.find_users(body.users)].tolist()
        items = data.item_ids.array[served.find_items(body.items)].tolist()
        scores = served.model.score(users, items, mainstream=body.mainstream)
        return {"model": served.checksum, "scores": scores.tolist()}

    def search(self, query: str, k: int, kind: str) -> dict[str, Any]:
        """Return items by name or id, and users by id."""
        served = self.served
        self._check_count("k", k, self.options.max_k)
        items = served.items.find(query, k) if kind != "users" else _NOTHING
        users = served.users.find(query, k) if kind != "items" else _NOTHING
        return {"model": served.checksum, "items": _count_items(served, items), "users": _count_users(served, users)}

    def item(self, item: str) -> dict[str, Any]:
        """Return all that is known about an item."""
        served = self.served
        index = served.find_items([item])
        (about,) = _count_items(served, index)
        reach = served.model.vectors.reach
        about["reach"] = None if reach is None else float(reach[int(index[0])])
        about["columns"] = {} if served.table is None else served.table.cells_of(int(index[0]))
        return {"model": served.checksum, "item": about}

    def history(self, user: str, k: int, offset: int) -> dict[str, Any]:
        """Return the items that a user has, most popular first."""
        served = self.served
        self._check_count("k", k, self.options.max_k)
        index = served.find_users([user])
        data = served.model.data
        own = data.items_of(int(index[0])).astype(np.int64)
        own = own[np.argsort(-data.users_per_item[own], kind="stable")][offset : offset + k]
        (about,) = _count_users(served, index)
        return {"model": served.checksum, "user": about, "items": _count_items(served, own)}

    def describe(self) -> dict[str, Any]:
        """Return what is served, and the limits of requests."""
        served, options = self.served, self.options
        model = served.model
        has_reach = model.vectors.reach is not None
        return {
            "model": served.checksum,
            "file": options.model.name,
            "version": __version__,
            "users": model.data.n_users,
            "items": model.data.n_items,
            "pairs": len(model.data),
            "dim": model.vectors.dim,
            "constraint": model.vectors.constraint,
            "reach": has_reach,
            "mainstream": model.vectors.mainstream if has_reach else None,
            "index": options.index is not None,
            "columns": {} if served.table is None else served.table.distinct,
            "loaded": served.loaded.isoformat(timespec="seconds"),
            "limits": {
                "k": options.max_k,
                "lists": options.max_lists,
                "items": options.max_items,
                "ids": options.max_ids,
                "body_bytes": options.max_body,
            },
        }

    async def add(self, body: AddBody) -> dict[str, Any]:
        """Add items by their features, replace the model file, and answer from it."""
        if not self.options.writable:
            raise ForbiddenError("this server does not add items; start it with --writable")
        if self.options.index is not None:
            raise ArgumentError(
                "a server with an index takes no new items; add them with spherec add-items, and build it anew"
            )
        self._check_count("items", len(body.items), self.options.max_ids)
        try:
            async with self._adding:
                answer = await asyncio.to_thread(self._add, body)
        except LockedOutputError:
            raise BusyError("another process is replacing the model file; ask again in a second") from None
        await self.pick_up()
        return answer

    def _add(self, body: AddBody) -> dict[str, Any]:
        ids = [item.id for item in body.items]
        rows = [item.features for item in body.items]
        names = {item.id: item.name for item in body.items if item.name}
        with lock_output(self.options.model, wait=_LONGEST_TURN):
            model = CML.load(self.options.model, device="cpu")  # another process may have added some
            fitted = model.artifact.features
            if fitted is None:
                raise ArgumentError(
                    "the model was trained without features, and cannot place new items; train it with some"
                )
            tables = [source.item for source in fitted.transformation.sources]
            if None in tables:
                raise ArgumentError("the model has features from a matrix; add items with model.add_items instead")
            columns = {name: [row.get(name) for row in rows] for row in rows for name in row}
            features = fitted.transform(*({**columns, str(item): ids} for item in tables))
            model.add_items(features, names=names)
            model.save(self.options.model)
        checksum = str(Artifact.load(self.options.model, mmap=True).checksum)
        return {"model": checksum, "added": len(ids), "ignored": dict(features.left_out)}

    def _check_list(self, k: int, offset: int) -> None:
        self._check_count("k + offset", k + offset, self.options.max_k)

    def _check_count(self, name: str, count: int, most: int) -> None:
        if count > most:
            got = f"{count:,}" if count < 10**15 else "far more"
            raise ArgumentError(f"{name} must be at most {most:,} in one request, got {got}; ask in parts")


_NOTHING = np.zeros(0, dtype=np.int64)


def _check_dial(mainstream: float | None, served: ServedModel) -> None:
    refuse_idle_dial(mainstream, served.model.vectors)
    if mainstream is not None:
        check_mainstream(mainstream)


def _list_items(served: ServedModel, ranked: RankedList) -> list[dict[str, Any]]:
    items = _score_items(served, ranked.items, ranked.scores.tolist())
    if ranked.reasons is not None:
        for row, item in enumerate(items):
            item["because"] = _row_of(served, ranked.reasons, row)
    return items


def _row_of(served: ServedModel, reasons: Ranking, row: int) -> list[dict[str, Any]]:
    index = reasons.items[row]
    index = index[index >= 0]
    return _score_items(served, index, reasons.scores[row, : len(index)].tolist())


def _score_items(served: ServedModel, index: NDArray[np.int64], scores: Sequence[float]) -> list[dict[str, Any]]:
    items = served.describe_items(index)
    for item, score in zip(items, scores, strict=True):
        item["score"] = score
    return items


def _count_items(served: ServedModel, index: NDArray[np.int64]) -> list[dict[str, Any]]:
    items = served.describe_items(index)
    for item, count in zip(items, served.model.data.users_per_item[index].tolist(), strict=True):
        item["users"] = count
    return items


def _count_users(served: ServedModel, index: NDArray[np.int64]) -> list[dict[str, Any]]:
    data = served.model.data
    counts = data.indptr[index + 1] - data.indptr[index]
    ids = data.user_ids.array[index].tolist()
    return [{"id": to_json(one), "items": count} for one, count in zip(ids, counts.tolist(), strict=True)]
