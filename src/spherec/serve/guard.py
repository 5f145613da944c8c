"""The outermost layer of the app: request ids, keys, limits of bodies, a line in the log, counts of requests."""

import hashlib
import hmac
import ipaddress
import logging
import re
import time
import uuid
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spherec.serve.service import Service

LOG = logging.getLogger("spherec.serve")
_SANE_ID = re.compile(rb"[\w.:=/+-]{1,100}")
_JSON = re.compile(rb"\s*application/([\w.-]+\+)?json\s*(;.*)?", re.IGNORECASE)
_OPEN = ("/", "/page/", "/health/")  # need no key; a path that ends with / stands for all below it
_CLOSE = {"connection": "close"}
_ALWAYS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-cache"))  # so the page never mixes versions


class RequestGuard:
    """The outermost layer of the app.

    Args:
        app: The app inside.
        service: The service, which has the options, counts requests and knows whether it is stopping.
        is_local: Answer only those who ask for localhost or an IP address, unless there are keys.
    """

    def __init__(self, app: ASGIApp, *, service: Service, is_local: bool) -> None:
        self._app, self._service, self._options = app, service, service.options
        self._keys = [_digest(key.encode()) for key in self._options.read_keys()]
        self._needs_local_name = is_local and not self._keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, method, status = time.perf_counter(), scope["method"], 0
        if method == "HEAD":  # the answer to GET, of which the server sends no body
            scope = {**scope, "method": "GET"}
        headers: dict[bytes, bytes] = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        request_id = given.decode() if _SANE_ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                extra = [(b"x-request-id", request_id.encode()), *_ALWAYS]
                extra += [(b"connection", b"close")] if self._service.is_stopping else []
                message = {**message, "headers": [*message.get("headers", ()), *extra]}
            await send(message)

        try:
            self._check(scope, headers)
            await self._app(scope, _limit(receive, self._options.max_body), send_with_id)
        except Exception as error:
            if not isinstance(error, HTTPException):
                LOG.exception("request failed", extra={"fields": {"request_id": request_id, "path": scope["path"]}})
                if status:
                    raise  # half an answer: the connection is closed
                error = HTTPException(500, "the server failed to answer; its log has the cause under this request_id")
            content = {"error": error.detail, "request_id": request_id}
            await JSONResponse(content, error.status_code, error.headers)(scope, receive, send_with_id)
        finally:
            self._note(scope, method, status or 500, time.perf_counter() - begin)

    def _note(self, scope: Scope, method: str, status: int, seconds: float) -> None:
        """Count the request, and write it to the log."""
        route = str(getattr(scope.get("route"), "name", "other"))
        self._service.metrics.requests.labels(route, status).inc()
        self._service.metrics.seconds.labels(route).observe(seconds)
        if self._options.log_requests:
            request_id, milliseconds = scope["state"]["request_id"], round(seconds * 1000, 2)
            fields = {"method": method, "path": scope["path"], "status": status, "ms": milliseconds}
            LOG.info("request", extra={"fields": {"request_id": request_id, **fields}})

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Refuse a foreign name, a wrong key, and a body that is not marked as JSON."""
        path: str = scope["path"]
        if self._needs_local_name and not _is_local_name(headers.get(b"host", b"").decode("latin-1")):
            message = (
                "this server has no keys, and answers on this machine alone: ask for http://localhost, let a proxy "
                "send Host: localhost, or start the server with --api-key-file to let it be asked under another name"
            )
            raise HTTPException(421, message)
        if b"transfer-encoding" in headers and b"content-length" in headers:  # a proxy may go by the other one
            raise HTTPException(400, "the request has two lengths, Content-Length and Transfer-Encoding", _CLOSE)
        is_open = any(path == place or (len(place) > 1 and path.startswith(place)) for place in _OPEN)
        if self._keys and not is_open and not self._has_key(headers):
            message = "this server needs a key; send it as the header Authorization: Bearer KEY"
            raise HTTPException(401, message, {"www-authenticate": "Bearer", **_CLOSE})
        if scope["method"] == "POST" and not _JSON.fullmatch(headers.get(b"content-type", b"")):
            # a page of another site may send any other body without asking first
            raise HTTPException(422, "the body is not marked as JSON; send it with Content-Type: application/json")

    def _has_key(self, headers: dict[bytes, bytes]) -> bool:
        """Compare with all keys, in the same time whatever was given."""
        kind, _, key = headers.get(b"authorization", b"").partition(b" ")
        given = _digest(key.strip() if kind.lower() == b"bearer" else headers.get(b"x-api-key", b""))
        return max([hmac.compare_digest(given, key) for key in self._keys])


def _limit(receive: Receive, most: int) -> Receive:
    """Return a `receive` that refuses a body of more bytes."""
    size = 0

    async def receive_some() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > most:
            raise HTTPException(413, f"a request must have at most {most:,} bytes; ask in parts", _CLOSE)
        return message

    return receive_some


def _is_local_name(host: str) -> bool:
    """Return whether a Host header is localhost, a name below it, an IP address, or absent.

    A page of another site that made its own name stand for this machine would send that name.
    """
    try:
        name = (urlsplit(f"//{host}").hostname or "localhost").removesuffix(".")
        return f".{name}".endswith(".localhost") or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
