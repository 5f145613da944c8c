"""The HTTP app: routes, errors, the page and the description of the API.

Only the files of this folder import FastAPI, Starlette and uvicorn.
"""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial, wraps
from html import escape
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from spherec._version import __version__
from spherec.errors import ArgumentError, SpherecError, UnknownIdError, quote
from spherec.serve import schema
from spherec.serve.answers import Answers
from spherec.serve.batcher import BusyError
from spherec.serve.guard import RequestGuard
from spherec.serve.options import ServeOptions
from spherec.serve.served_model import ServedModel
from spherec.serve.service import Service

PAGE = Path(__file__).parent / "page"
_POLICY = "default-src 'self'; img-src 'self' data: blob:{pictures}; base-uri 'none'; frame-ancestors 'none'"
_DOCS = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>spherec: HTTP</title><h1>spherec {version}</h1>"
    "<p>Parameters, bodies and answers: <a href=openapi.json>openapi.json</a>, for any viewer of OpenAPI.<dl>{routes}"
)
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schema.Problem} for status in (400, 401, 403, 404, 413, 422, 503)
}


class JsonAnswer(JSONResponse):
    """An answer in JSON; characters beyond ASCII are escaped, so that half a character of an id comes through."""

    def render(self, content: Any) -> bytes:
        """Write the body."""
        return json.dumps(content, default=str, allow_nan=False, separators=(",", ":")).encode()


def create_app(options: ServeOptions, served: ServedModel | None = None, *, is_local: bool = False) -> FastAPI:
    """Return the app that answers from the files that the options name.

    Args:
        options: Files and limits.
        served: The model, if it is loaded already.
        is_local: Answer only those who ask for localhost or an IP address, unless there are keys.
    """
    service = Service(options, served or ServedModel.load(options))

    @asynccontextmanager
    async def run(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.stop()

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
    _add_errors(app)
    answers = Answers(service)
    for name, function in vars(Answers).items():
        if hasattr(function, "route"):
            _add_route(app, service, getattr(answers, name))
    _add_pages(app, service)
    app.add_middleware(RequestGuard, service=service, is_local=is_local)
    return app


def _add_route(app: FastAPI, service: Service, function: Callable[..., Any]) -> None:
    """Add a route. Before it says that an id is not known, it looks for a new model: another process may have added it.

    Functions that are not coroutines run in a thread. Those whose answer has no form in `schema` serve the page alone.
    """
    call = function if inspect.iscoroutinefunction(function) else partial(asyncio.to_thread, function)

    @wraps(function)
    async def answer(*arguments: Any, **options: Any) -> Response:
        served = service.served
        try:
            content = await call(*arguments, **options)
        except UnknownIdError:
            await service.pick_up()
            if service.served is served:
                raise
            content = await call(*arguments, **options)
        return content if isinstance(content, Response) else JsonAnswer(content)

    method, path = function.route  # type: ignore[attr-defined]
    form, name = inspect.signature(function).return_annotation, function.__name__
    is_described = form.__module__ == schema.__name__
    app.add_api_route(
        path,
        answer,
        methods=[method],
        name=name,
        operation_id=name,
        response_model=None,
        dependencies=[Depends(_refuse_unknown_parameters)],
        responses={200: {"model": form, "description": inspect.getdoc(form)}, **_ERRORS} if is_described else {},
        include_in_schema=is_described,
    )


async def _refuse_unknown_parameters(request: Request) -> None:
    """Refuse parameters that a route does not have, as fields of a body are."""
    known = sorted(field.alias for field in request.scope["route"].dependant.query_params)
    if unknown := [name for name in request.query_params if name not in known]:
        raise ArgumentError(f"there is no parameter {quote(unknown[0])} here; there is {', '.join(known) or 'none'}")


def _add_pages(app: FastAPI, service: Service) -> None:
    """Add what does not come from the model: health, the counts, the page and its files, and a list of the routes."""

    @app.get("/health/live", operation_id="live")
    async def live() -> schema.Health:
        """Tell that the process answers."""
        return {"status": "ok"}

    @app.get("/health/ready", operation_id="ready", responses={503: _ERRORS[503]})
    async def ready() -> schema.Health:
        """Tell that requests are answered, and that the server is not stopping."""
        service.check_ready()
        return {"status": "ok"}

    @app.get("/metrics", operation_id="metrics", response_class=Response, responses={401: _ERRORS[401]})
    def metrics() -> Response:
        """Counts of requests, times, batches and swaps in the text format of Prometheus."""
        return Response(service.metrics.render(), media_type="text/plain; version=0.0.4")

    hosts = (service.options.pictures or "").partition("=")[2].replace(",", " https://")
    policy = _POLICY.format(pictures=hosts and f" https://{hosts}")

    @app.get("/", include_in_schema=False)
    def page() -> Response:
        return FileResponse(PAGE / "index.html", headers={"content-security-policy": policy})

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response:
        routes = [
            f"<dt><code>{method.upper()} {escape(path)}</code><dd>{escape(operation.get('description', ''))}"
            for path, methods in app.openapi()["paths"].items()
            for method, operation in methods.items()
        ]
        text = _DOCS.format(version=__version__, routes="".join(routes))
        return Response(text, media_type="text/html", headers={"content-security-policy": "default-src 'none'"})

    app.mount("/page", StaticFiles(directory=PAGE), name="page")


def _add_errors(app: FastAPI) -> None:
    """Turn every error into one sentence."""

    def answer(request: Request, status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
        content = {"error": sentence, "request_id": request.state.request_id}
        return JsonAnswer(content, status_code=status, headers=headers)

    @app.exception_handler(RequestValidationError)
    async def refuse_request(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        path = ".".join(str(step) for step in first["loc"][1:])  # names in it may be the client's: escaped and cut
        place = quote(path)[1:-1] or "the request"
        if first["type"] == "json_invalid":
            sentence = f"the body is not valid JSON: {first.get('ctx', {}).get('error', first['msg'])}"
            return answer(request, 400, sentence)
        value = "" if first["type"] == "missing" else f", got {quote(first.get('input'))}"
        if (
            first["loc"][1:2] == ("filter",) and len(first["loc"]) > 2
        ):  # of a union, pydantic tells about the first kind alone
            column = quote(".".join(map(str, first["loc"][1:3])))[1:-1]
            return answer(
                request, 422, f'{column} must be a value, a list of values, or a range such as {{"<": 20}}{value}'
            )
        return answer(request, 422, f"{place}: {first['msg']}{value}")

    @app.exception_handler(SpherecError)
    async def refuse_question(request: Request, error: SpherecError) -> Response:
        if isinstance(error, BusyError):
            return answer(request, 503, str(error), {"retry-after": "1"})
        return answer(request, 404 if isinstance(error, UnknownIdError) else 422, str(error))

    @app.exception_handler(HTTPException)
    async def refuse_path(request: Request, error: HTTPException) -> Response:
        sentences = {
            404: f"there is nothing at {quote(request.url.path)}; GET /docs lists what there is",
            405: f"{request.method} is not for {quote(request.url.path)}; GET /docs lists what is",
        }
        headers = dict(error.headers) if error.headers else None
        return answer(request, error.status_code, sentences.get(error.status_code, str(error.detail)), headers)
