"""The HTTP app: routes, errors, the page and the description of the API.

Only the files of this folder import FastAPI, Starlette and uvicorn.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import unquote

from spherec._version import __version__
from spherec.errors import ArgumentError, MissingPackageError, SpherecError, UnknownIdError, quote
from spherec.serve.batcher import BusyError
from spherec.serve.guard import RequestGuard
from spherec.serve.metrics import Metrics
from spherec.serve.options import INSTALL, ServeOptions
from spherec.serve.page_data import MapKeeper, choose_samples, describe_places, encode_map
from spherec.serve.served_model import ServedModel

try:
    from fastapi import FastAPI, Query, Request, Response
    from fastapi.exceptions import RequestValidationError
    from fastapi.routing import APIRoute
    from pydantic import BaseModel
    from starlette.exceptions import HTTPException
    from starlette.staticfiles import StaticFiles

    from spherec.serve import schema
    from spherec.serve.api_page import draw_api_page
    from spherec.serve.service import ForbiddenError, Service
except ImportError as error:
    raise MissingPackageError(INSTALL) from error

PAGE = Path(__file__).parent / "page"
_POLICY = "default-src 'self'; img-src 'self' data: blob:; base-uri 'none'; frame-ancestors 'none'"
_API_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schema.Problem, "description": description}
    for status, description in (
        (400, "The body is no JSON."),
        (401, "The key is missing or wrong."),
        (403, "The server has not been started for this."),
        (404, "An id is not known."),
        (408, "The body came too slowly."),
        (413, "The body is too large."),
        (422, "A value is of the wrong type or out of range."),
        (503, "The queue is full, or the server is stopping; Retry-After says when to ask again."),
    )
}

Count = Annotated[int, Query(ge=1, description="Length of the list.")]
Offset = Annotated[int, Query(ge=0, description="Items to skip at the top of the list.")]


class JsonAnswer(Response):
    """An answer in JSON; characters beyond ASCII are escaped, so that half a character of an id comes through."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Write the body."""
        return json.dumps(content, default=str, allow_nan=False, separators=(",", ":")).encode()


class PageFiles(StaticFiles):
    """The files of the page. A browser asks each time whether they have changed, so that it never mixes versions."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        """Answer with a file."""
        response = super().file_response(*arguments, **options)
        response.headers["cache-control"] = "no-cache"
        return response


def create_app(
    options: ServeOptions,
    served: ServedModel | None = None,
    *,
    metrics: Metrics | None = None,
    stopping: Callable[[], bool] = lambda: False,
    is_local: bool = False,
) -> FastAPI:
    """Return the app that answers from the files that the options name.

    Args:
        options: Files and limits.
        served: The model, if it is loaded already. By default it is loaded when the app starts.
        metrics: Counts of requests; by default those of this process.
        stopping: Tells whether the server has been told to stop: connections are then closed after their answer.
        is_local: Answer only those who ask for localhost or an IP address, unless there are keys.
    """
    metrics = metrics or Metrics()
    service = Service(options, served, metrics)
    keys = options.read_keys()

    @asynccontextmanager
    async def run(_: FastAPI) -> AsyncIterator[None]:
        service.batcher.start(metrics.count_batch)
        if served is None:
            await service.refresh()
        watcher = asyncio.create_task(_watch(service)) if options.watch_seconds else None
        try:
            yield
        finally:
            if watcher is not None:
                watcher.cancel()
            await asyncio.to_thread(service.batcher.close)

    app = FastAPI(
        title="spherec",
        summary="Lists, neighbours, reasons and scores from a model of users and items.",
        version=__version__,
        lifespan=run,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        default_response_class=JsonAnswer,
    )
    app.state.service = service
    _add_errors(app)
    _add_questions(app, service)
    _add_operations(app, service, metrics, stopping)
    _add_pages(app)
    _add_page_data(app, service)
    app.add_middleware(
        RequestGuard,
        keys=keys,
        is_local=is_local,
        max_body=options.max_body,
        body_seconds=options.body_seconds,
        is_stopping=stopping,
        metrics=metrics,
        log_requests=options.log_requests,
    )
    return app


class FreshRoute(APIRoute):
    """A route that looks for a new model before it says that an id is not known: another process may have added it.

    Parameters that it does not have are refused, as fields of a body are.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers a request."""
        answer = super().get_route_handler()
        known = sorted(field.alias for field in self.dependant.query_params)

        async def answer_afresh(request: Request) -> Response:
            if unknown := [name for name in request.query_params if name not in known]:
                raise ArgumentError(
                    f"there is no parameter {quote(unknown[0])} here; there is {', '.join(known) or 'none'}"
                )
            service: Service = request.app.state.service
            served = service.served
            try:
                return await answer(request)
            except UnknownIdError:
                await service.pick_up()
                if service.served is served:
                    raise
                return await answer(request)

        return answer_afresh


def _add_questions(app: FastAPI, service: Service) -> None:
    """Add the routes that the model answers."""

    def add(
        path: str,
        name: str,
        answer: Callable[..., Any],
        model: type[BaseModel],
        method: Literal["GET", "POST"] = "GET",
    ) -> None:
        app.router.add_api_route(
            path,
            answer,
            methods=[method],
            name=name,
            operation_id=name,
            responses={200: {"model": model, "description": (model.__doc__ or "").strip()}, **_ERRORS},
            response_class=JsonAnswer,
            response_model=None,
            route_class_override=FreshRoute,
        )

    async def recommend(body: schema.RecommendBody) -> Response:
        """Lists for users, for a new user with some items, and for places in the space."""
        return JsonAnswer(await service.recommend(body))

    async def recommend_user(
        user: str,
        k: Count = 10,
        offset: Offset = 0,
        mainstream: Annotated[float | None, Query(description="As in POST /recommend.", allow_inf_nan=False)] = None,
        explain: Annotated[int, Query(ge=0, le=schema.MOST_REASONS, description="Reasons for each item.")] = 0,
        exclude_seen: Annotated[bool, Query(description="Leave out the items that the user has.")] = True,
    ) -> Response:
        """The list of one user."""
        body = schema.RecommendBody(
            users=[user], k=k, offset=offset, mainstream=mainstream, explain=explain, exclude_seen=exclude_seen
        )
        answer = await service.recommend(body)
        return JsonAnswer({"model": answer["model"], **answer["lists"][0]})

    async def similar(item: str, k: Count = 10, offset: Offset = 0) -> Response:
        """Items near an item."""
        return JsonAnswer(await service.similar(item, k, offset))

    def explain(request: Request, user: str, item: str, k: Count = 5) -> Response:
        """Reasons why an item suits a user: the nearest of the items that they have."""
        user, item = (unquote(part) for part in request.scope["raw_path"].decode().split("/")[-2:])  # with %2F inside
        return JsonAnswer(service.explain(user, item, k))

    def score(body: schema.ScoreBody) -> Response:
        """Scores of pairs of users and items."""
        return JsonAnswer(service.score(body))

    def search(
        q: Annotated[str, Query(max_length=1000, description="The beginning of an id, or of words of a name.")] = "",
        k: Count = 10,
        kind: Annotated[Literal["all", "items", "users"], Query(description="What to look for.")] = "all",
    ) -> Response:
        """Items by name or id, and users by id; with an empty query the most popular ones."""
        return JsonAnswer(service.search(q, k, kind))

    def item(item: str) -> Response:
        """All that is known about an item."""
        return JsonAnswer(service.item(item))

    async def add_items(body: schema.AddBody) -> Response:
        """Add items that nobody has yet, placed by their features, and replace the model file."""
        return JsonAnswer(await service.add(body))

    def user(user: str, k: Count = 100, offset: Offset = 0) -> Response:
        """The items that a user has, most popular first."""
        return JsonAnswer(service.history(user, k, offset))

    def model() -> Response:
        """The model in use, and the limits of requests."""
        return JsonAnswer(service.describe())

    add("/recommend", "recommend", recommend, schema.RecommendAnswer, "POST")
    add("/recommend/{user:path}", "recommend_user", recommend_user, schema.UserAnswer)
    add("/similar/{item:path}", "similar", similar, schema.SimilarAnswer)
    add("/explain/{user:path}/{item:path}", "explain", explain, schema.ExplainAnswer)
    add("/score", "score", score, schema.ScoreAnswer, "POST")
    add("/search", "search", search, schema.SearchAnswer)
    add("/items", "add_items", add_items, schema.AddAnswer, "POST")
    add("/items/{item:path}", "item", item, schema.ItemAnswer)
    add("/users/{user:path}", "user", user, schema.HistoryAnswer)
    add("/model", "model", model, schema.ModelAnswer)


def _add_operations(app: FastAPI, service: Service, metrics: Metrics, stopping: Callable[[], bool]) -> None:
    """Add the routes for those who run the server."""

    @app.get("/health/live", responses={200: {"model": schema.Health}}, response_model=None)
    async def live() -> Response:
        """Tell that the process answers."""
        return JsonAnswer({"status": "ok"})

    @app.get("/health/ready", responses={200: {"model": schema.Health}, 503: _ERRORS[503]}, response_model=None)
    async def ready() -> Response:
        """Tell that requests are answered: a model is loaded, and the server is not stopping."""
        if not service.is_loaded or stopping():
            raise BusyError("the server is stopping" if stopping() else "the model is not loaded yet")
        return JsonAnswer({"status": "ok"})

    @app.get("/metrics", response_class=Response, response_model=None, responses={401: _ERRORS[401]})
    async def metrics_text() -> Response:
        """Counts of requests, times, batches and swaps in the text format of Prometheus."""
        metrics.set_waiting(service.batcher.waiting)
        checksum = service.served.checksum if service.is_loaded else None
        return Response(metrics.render(checksum), media_type="text/plain; version=0.0.4")


def _add_pages(app: FastAPI) -> None:
    """Add the page, its files, and the description of the API."""

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        headers = {"content-security-policy": _API_POLICY}
        return Response(draw_api_page(app.openapi()), media_type="text/html", headers=headers)

    @app.get("/", include_in_schema=False, name="page")
    def page() -> Response:
        index = PAGE / "index.html"
        headers = {"content-security-policy": _POLICY, "cache-control": "no-cache"}
        return Response(index.read_bytes(), media_type="text/html", headers=headers)

    app.mount("/page", PageFiles(directory=PAGE, check_dir=False), name="page")


def _add_page_data(app: FastAPI, service: Service) -> None:
    """Add what the page alone asks for."""
    keeper = MapKeeper(service.options.model)
    samples: dict[str, Any] = {}

    @app.get("/map", include_in_schema=False)
    def map_of_items(request: Request) -> Response:
        served = service.served
        found = keeper.find(served)
        if isinstance(found, float):
            progress = {"model": served.checksum, "progress": found}
            return JsonAnswer(progress, status_code=202, headers={"retry-after": "1"})
        headers = {"etag": f'"{served.checksum}"', "cache-control": "no-cache", "x-model": served.checksum}
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        return Response(encode_map(found, served), media_type="application/octet-stream", headers=headers)

    @app.get("/map/items", include_in_schema=False)
    def items_of_map(
        index: Annotated[list[int] | None, Query()] = None, id: Annotated[list[str] | None, Query()] = None
    ) -> Response:
        served = service.served
        return JsonAnswer({"model": served.checksum, "items": describe_places(served, index or [], id or [])})

    @app.get("/map/start", include_in_schema=False)
    def start_of_page() -> Response:
        served = service.served
        if served.checksum not in samples:
            samples[served.checksum] = choose_samples(served)
        return JsonAnswer({"model": served.checksum, **samples[served.checksum]})


def _add_errors(app: FastAPI) -> None:
    """Turn every error into one sentence."""

    def answer(request: Request, status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
        content = {"error": sentence, "request_id": request.state.request_id}
        return JsonAnswer(content, status_code=status, headers=headers)

    async def refuse_request(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        path = ".".join(str(step) for step in first["loc"][1:])  # names in it may be the client's: escaped and cut
        place = quote(path)[1:-1] or "the request"
        if first["type"] == "json_invalid":
            return answer(request, 400, f"the body is no JSON: {first.get('ctx', {}).get('error', first['msg'])}")
        value = "" if first["type"] == "missing" else f", got {quote(first.get('input'))}"
        return answer(request, 422, f"{place}: {first['msg']}{value}")

    async def refuse_question(request: Request, error: Exception) -> Response:
        status = 404 if isinstance(error, UnknownIdError) else 403 if isinstance(error, ForbiddenError) else 422
        return answer(request, status, str(error))

    async def refuse_now(request: Request, error: Exception) -> Response:
        return answer(request, 503, str(error), {"retry-after": "1"})

    async def refuse_path(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        sentences = {
            404: f"there is nothing at {quote(request.url.path)}; GET /docs lists what there is",
            405: f"{request.method} is not for {quote(request.url.path)}; GET /docs lists what is",
        }
        headers = dict(error.headers) if error.headers else None
        return answer(request, error.status_code, sentences.get(error.status_code, str(error.detail)), headers)

    app.add_exception_handler(RequestValidationError, refuse_request)
    app.add_exception_handler(BusyError, refuse_now)
    app.add_exception_handler(SpherecError, refuse_question)
    app.add_exception_handler(HTTPException, refuse_path)


async def _watch(service: Service) -> None:
    """Put a new model in place whenever the files change."""
    while True:
        await asyncio.sleep(service.options.watch_seconds)
        await service.pick_up()
