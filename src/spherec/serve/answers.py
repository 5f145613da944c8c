"""The routes that the model answers: one method each, whose types and docstring describe it to clients."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, cast
from urllib.parse import unquote

import numpy as np
from fastapi import HTTPException, Request, Response
from fastapi import Query as Parameter

from spherec._version import __version__
from spherec.errors import ArgumentError
from spherec.ranking.ranker import check_indices
from spherec.recommender.trained_model import Query
from spherec.serve import schema
from spherec.serve.event_log import make_event
from spherec.serve.item_map import MapKeeper, choose_samples, collect_words, describe_places
from spherec.serve.served_model import RankedList, ServedModel
from spherec.serve.service import Service

_REASONS = 3  # for each item, if their number is not given
_MOST_PLACES = 1000  # items of the map described at once
_NOTHING = np.zeros(0, dtype=np.int64)

Count = Annotated[int, Parameter(ge=1, description="Length of the list.")]
Offset = Annotated[int, Parameter(ge=0, description="Items to skip at the top of the list.")]
Mainstream = Annotated[float | None, Parameter(description="As in POST /recommend.", allow_inf_nan=False)]
Reasons = Annotated[int, Parameter(ge=0, le=schema.MOST_REASONS, description="Reasons for each item.")]
Diversity = Annotated[float, Parameter(ge=0, le=1, description="As in POST /recommend.")]
OrPopular = Annotated[
    Literal["error", "popular"], Parameter(description="What a user gets whom the model does not know.")
]
ExcludeSeen = Annotated[bool, Parameter(description="Leave out the items that the user has.")]
Typed = Annotated[str, Parameter(max_length=1000, description="The beginning of an id, or of words of a name.")]
SearchKind = Annotated[Literal["all", "items", "users"], Parameter(description="What to look for.")]


def route(method: str, path: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a method as the answer to requests at a path."""

    def mark(answer: Callable[..., Any]) -> Callable[..., Any]:
        answer.route = (method, path)  # type: ignore[attr-defined]
        return answer

    return mark


class Answers:
    """Answers from the current model. Every answer comes from one version, which it names."""

    def __init__(self, service: Service) -> None:
        self._service, self._options = service, service.options
        self._map = MapKeeper(service.options.model)

    @route("POST", "/recommend")
    async def recommend(self, body: schema.RecommendBody) -> schema.RecommendAnswer:
        """Lists for users, for a new user with some items, and for places in the space."""
        served = self._service.served
        reasons = _REASONS if body.explain is True else int(body.explain)
        n_lists = len(body.users) + (body.items is not None) + len(body.vectors)
        self._check_lists(n_lists, body.k, body.offset, reasons)
        query, skipped = served.filter(body)
        query = query._replace(exclude_seen=body.exclude_seen, mainstream=body.mainstream)
        log = self._service.events
        events = {} if log is None else await log.find(body.users, served.saved)
        users = served.find_users(body.users, body.unknown, events)
        queries = [query._replace(**whom) for _, whom in users]
        if body.items is not None:
            own = served.find("item", body.items, "skip" if body.unknown == "popular" else body.unknown)
            queries.append(query._replace(basket=own))
        queries += [query._replace(vector=np.array(vector, dtype=np.float64)) for vector in body.vectors]
        lists = await self._rank(served, queries, body.offset, reasons)
        names = [*(user for user, _ in users), *[None] * (len(lists) - len(users))]
        if log is not None:
            for (user, _), items in zip(users, lists, strict=False):
                log.note_list(user, [item["id"] for item in items])
        answers: list[schema.UserList] = [
            {"user": user, "items": items, "fallback": "popular" if asked.is_popular else None}  # type: ignore[typeddict-item]
            for asked, user, items in zip(queries, names, lists, strict=True)
        ]
        return {"model": served.checksum, "lists": answers, "skipped": skipped}

    @route("GET", "/recommend/{user:path}")
    async def recommend_user(
        self,
        user: str,
        k: Count = 10,
        offset: Offset = 0,
        mainstream: Mainstream = None,
        explain: Reasons = 0,
        exclude_seen: ExcludeSeen = True,
        diversity: Diversity = 0.0,
        unknown: OrPopular = "error",
    ) -> schema.UserAnswer:
        """The list of one user."""
        body = schema.RecommendBody(users=[user], k=k, offset=offset, explain=explain, exclude_seen=exclude_seen)
        body.mainstream, body.diversity, body.unknown = mainstream, diversity, unknown
        answer = await self.recommend(body)
        return cast("schema.UserAnswer", {"model": answer["model"], **answer["lists"][0]})

    @route("GET", "/similar/{item:path}")
    async def similar(
        self, item: str, k: Count = 10, offset: Offset = 0, diversity: Diversity = 0.0
    ) -> schema.SimilarAnswer:
        """Items near an item."""
        body = schema.SimilarBody(item=item, k=k, offset=offset, diversity=diversity)
        answer: schema.SimilarAnswer = await self.similar_filtered(body)
        return answer

    @route("POST", "/similar")
    async def similar_filtered(self, body: schema.SimilarBody) -> schema.SimilarAnswer:
        """Items near an item, among those that the filters allow."""
        served = self._service.served
        self._check_lists(1, body.k, body.offset)
        index = served.find("item", [body.item])
        query, skipped = served.filter(body)
        (items,) = await self._rank(served, [query._replace(item=int(index[0]))], body.offset)
        return {"model": served.checksum, "item": served.name_items(index)[0], "items": items, "skipped": skipped}

    @route("GET", "/explain/{user:path}/{item:path}")
    async def explain(self, request: Request, user: str, item: str, k: Count = 5) -> schema.ExplainAnswer:
        """Reasons why an item suits a user: the nearest of the items that they have."""
        ids = request.scope["raw_path"].decode().partition("/explain/")[2].split("/")  # with %2F inside
        if len(ids) != 2:
            raise ArgumentError(f"explain needs one user and one item, got {len(ids)} parts; write / in an id as %2F")
        user, item = map(unquote, ids)
        served = self._service.served
        self._check_lists(1, k)
        who, what = served.find("user", [user]), served.find("item", [item])
        query = Query(item=int(what[0]), k=k, only=served.model.data.items_of(int(who[0])))
        (because,) = await self._rank(served, [query])
        return {
            "model": served.checksum,
            "user": served.count_users(who)[0]["id"],
            "item": served.name_items(what)[0],
            "score": float(served.model.score_indices(who, what)[0]),
            "because": because,
        }

    @route("POST", "/score")
    def score(self, body: schema.ScoreBody) -> schema.ScoreAnswer:
        """Scores of pairs of users and items."""
        served = self._service.served
        users, items = served.find("user", body.users), served.find("item", body.items)
        scores = served.model.score_indices(users, items, mainstream=body.mainstream)
        return {"model": served.checksum, "scores": scores.tolist()}

    @route("GET", "/search")
    def search(self, q: Typed = "", k: Count = 10, kind: SearchKind = "all") -> schema.SearchAnswer:
        """Items by name or id, and users by id; with an empty query the most popular ones."""
        served = self._service.served
        self._check_lists(1, k)
        items = served.items.find(q, k) if kind != "users" else _NOTHING
        users = served.users.find(q, k) if kind != "items" else _NOTHING
        return {"model": served.checksum, "items": served.count_items(items), "users": served.count_users(users)}

    @route("POST", "/items")
    async def add_items(self, body: schema.AddBody) -> schema.AddAnswer:
        """Add items that nobody has yet, placed by their features, and replace the model file."""
        if not self._options.writable:
            raise HTTPException(403, "this server does not add items; start it with --writable")
        if self._options.index is not None:
            raise ArgumentError(
                "a server with an index takes no items; add them with spherec add-items, and index anew"
            )
        return await self._service.add(body)

    @route("POST", "/events")
    async def add_events(self, body: schema.EventsBody) -> schema.EventsAnswer:
        """Store what users did. It counts for their next lists, and an update of the model learns from it."""
        if self._service.events is None:
            raise HTTPException(403, "this server stores no events; start it with --events")
        await self._service.events.add([make_event(one.user, one.item, one.kind, one.time) for one in body.events])
        return {"model": self._service.served.checksum, "stored": len(body.events)}

    @route("GET", "/items/{item:path}")
    def item(self, item: str) -> schema.ItemAnswer:
        """All that is known about an item."""
        served = self._service.served
        index = served.find("item", [item])
        reach = served.model.vectors.reach
        details: schema.ItemDetails = {
            **served.count_items(index)[0],
            "reach": None if reach is None else float(reach[int(index[0])]),
            "columns": served.table.cells_of(int(index[0])),
        }
        return {"model": served.checksum, "item": details}

    @route("GET", "/users/{user:path}")
    def user(self, user: str, k: Count = 100, offset: Offset = 0) -> schema.HistoryAnswer:
        """The items that a user has, most popular first."""
        served = self._service.served
        self._check_count("k", k, self._options.max_k)
        index = served.find("user", [user])
        own = served.count_items(served.own_items(int(index[0]))[offset : offset + k])
        return {"model": served.checksum, "user": served.count_users(index)[0], "items": own}

    @route("GET", "/model")
    def model(self) -> schema.ModelAnswer:
        """The model in use, and the limits of requests."""
        served, options = self._service.served, self._options
        model = served.model
        has_reach = model.vectors.reach is not None
        limits = {name: getattr(options, f"max_{name}") for name in ("k", "lists", "items")}
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
            "columns": served.table.distinct,
            "loaded": served.loaded.isoformat(timespec="seconds"),
            "limits": {**limits, "ids": schema.MOST_IDS, "body_bytes": options.max_body},
        }

    @route("GET", "/map")
    async def map(self, request: Request) -> Response:
        """The places of all items as float32: x and y of each, then the number of users of each."""
        served = self._service.served
        places = self._map.find(served)
        if places is None:
            return Response(status_code=202, headers={"retry-after": "1"})
        headers = {"etag": f'"{served.checksum}"'}
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        content = places.astype("<f4").tobytes() + served.model.data.users_per_item.astype("<f4").tobytes()
        return Response(content, media_type="application/octet-stream", headers=headers)

    @route("GET", "/map/items")
    def items_of_map(
        self, index: Annotated[Sequence[int], Parameter()] = (), id: Annotated[Sequence[str], Parameter()] = ()
    ) -> dict[str, Any]:
        """Items of the map by their indices and ids; unknown ids are left out."""
        served = self._service.served
        self._check_count("index and id", len(index) + len(id), _MOST_PLACES)
        given = check_indices(np.array(index, dtype=np.int64), served.model.data.n_items, "index")
        items = np.concatenate((given, served.find("item", id, "skip")))
        return {"model": served.checksum, "items": describe_places(served, items)}

    @route("GET", "/map/groups")
    def groups_of_map(self, column: str = "") -> dict[str, Any]:
        """Values of a column, or else words of names, each with the indices of the items that have it."""
        served = self._service.served
        groups = served.table.group(column) if column else collect_words(served)
        return {"model": served.checksum, "groups": [[value, items.tolist()] for value, items in groups.items()]}

    @route("GET", "/map/start")
    def start_of_page(self) -> dict[str, Any]:
        """Items and users with whom a visitor of the page may begin."""
        served = self._service.served
        return {"model": served.checksum, **choose_samples(served)}

    async def _rank(
        self, served: ServedModel, queries: Sequence[Query], offset: int = 0, reasons: int = 0
    ) -> list[list[schema.ListedItem]]:
        """Return the items of lists, from the offset on; they are ranked together with those of other requests."""
        ranked = await self._service.batcher.rank(served, queries) if queries else []
        lists = [RankedList(items[offset:], scores[offset:]) for items, scores in ranked]
        if reasons:
            return await asyncio.to_thread(_explain, served, queries, lists, reasons)
        return [_list_items(served, one) for one in lists]

    def _check_lists(self, n_lists: int, k: int, offset: int = 0, reasons: int = 0) -> None:
        if not n_lists:
            raise ArgumentError("a request needs users, items of a new user, or vectors; it has none of them")
        self._check_count("k + offset", k + offset, self._options.max_k)
        self._check_count("lists", n_lists, self._options.max_lists)
        self._check_count("items of all lists, with reasons,", n_lists * k * (1 + reasons), self._options.max_items)

    def _check_count(self, name: str, count: int, most: int) -> None:
        if count > most:
            got = f"{count:,}" if count < 10**15 else "far more"
            raise ArgumentError(f"{name} must be at most {most:,} in one request, got {got}; ask in parts")


def _list_items(served: ServedModel, ranked: RankedList) -> list[schema.ListedItem]:
    named = zip(served.name_items(ranked.items), ranked.scores.tolist(), strict=True)
    return [{"id": item["id"], "name": item["name"], "score": score} for item, score in named]


def _explain(
    served: ServedModel, queries: Sequence[Query], lists: Sequence[RankedList], n_reasons: int
) -> list[list[schema.ListedItem]]:
    """Return the items of lists, each with the nearest of the user's own; an item is no reason for itself."""
    wanted = []
    for query, ranked in zip(queries, lists, strict=True):
        own = query.basket if query.user is None else served.model.data.items_of(query.user)
        own = _NOTHING if own is None else own  # of a vector
        wanted += [Query(item=item, only=own, k=n_reasons) for item in ranked.items.tolist()]
    reasons = iter(served.rank(wanted))
    answers = [_list_items(served, ranked) for ranked in lists]
    for item in (item for items in answers for item in items):
        item["because"] = _list_items(served, next(reasons))
    return answers
