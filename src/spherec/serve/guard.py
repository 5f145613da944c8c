"""The outermost layer of the app: request ids, keys, limits of bodies, a line in the log, counts of requests."""

import asyncio
import hashlib
import hmac
import ipaddress
import json
import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from spherec.serve.metrics import Metrics

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LOG = logging.getLogger("spherec.serve")
_SANE_ID = re.compile(rb"[\w.:=/+-]{1,100}")
_JSON = re.compile(rb"\s*application/([\w.-]+\+)?json\s*(;.*)?", re.IGNORECASE)
_OPEN = ("/", "/page/", "/health/")  # need no key; a path that ends with / stands for all below it


class RequestGuard:
    """The outermost layer of the app.

    Args:
        app: The app inside.
        keys: Keys that are let in; none lets everybody in.
        is_local: Answer only those who ask for localhost or an IP address, unless there are keys.
        max_body: Largest body in bytes.
        body_seconds: Seconds in which a body must have come.
        is_stopping: Tells whether connections are to be closed after their answer.
        metrics: Counts of requests.
        log_requests: Write a line for each request.
    """

    def __init__(
        self,
        app: Callable[[Scope, Receive, Send], Awaitable[None]],
        *,
        keys: Sequence[str],
        is_local: bool,
        max_body: int,
        body_seconds: float,
        is_stopping: Callable[[], bool],
        metrics: Metrics,
        log_requests: bool,
    ) -> None:
        self._app = app
        self._keys = [_digest(key.encode()) for key in keys]
        self._needs_local_name = is_local and not keys
        self._max_body, self._body_seconds = max_body, body_seconds
        self._is_stopping, self._metrics, self._log_requests = is_stopping, metrics, log_requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, method = time.perf_counter(), scope["method"]
        if method == "HEAD":  # the answer to GET, of which the server sends no body
            scope = {**scope, "method": "GET"}
        headers: dict[bytes, bytes] = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        request_id = given.decode() if _SANE_ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                extra = [(b"x-request-id", request_id.encode()), (b"x-content-type-options", b"nosniff")]
                if self._is_stopping():
                    extra.append((b"connection", b"close"))
                message = {**message, "headers": [*message.get("headers", ()), *extra]}
            await send(message)

        try:
            self._check(scope, headers)
            body = await self._read_body(scope, receive)
            await self._app(scope, _replay(body, receive), send_with_id)
        except _Refusal as refusal:
            await refusal.send(send_with_id, request_id)
        except Exception:
            LOG.exception("request failed", extra={"fields": {"request_id": request_id, "path": scope["path"]}})
            if status == 0:
                problem = _Refusal(500, "the server failed to answer; its log has the cause under this request_id")
                await problem.send(send_with_id, request_id)
            else:
                raise  # half an answer: the connection is closed
        finally:
            seconds = time.perf_counter() - begin
            self._metrics.count_request(_name_route(scope), status or 500, seconds)
            if self._log_requests:
                fields = {
                    "request_id": request_id,
                    "method": method,
                    "path": scope["path"],
                    "status": status,
                    "ms": round(seconds * 1000, 2),
                }
                LOG.info("request", extra={"fields": fields})

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Refuse a foreign name, a wrong key, a body that is not marked as JSON or announced as too large."""
        path: str = scope["path"]
        if self._needs_local_name and not _is_local_name(headers.get(b"host", b"").decode("latin-1")):
            message = (
                "this server has no keys, and answers on this machine alone: ask for http://localhost, let a proxy "
                "send Host: localhost, or start the server with --api-key-file to let it be asked under another name"
            )
            raise _Refusal(421, message)
        is_open = any(path == place or (len(place) > 1 and path.startswith(place)) for place in _OPEN)
        if self._keys and not is_open and not self._has_key(headers):
            message = "this server needs a key; send it as the header Authorization: Bearer KEY"
            raise _Refusal(401, message, ((b"www-authenticate", b"Bearer"), (b"connection", b"close")))
        if scope["method"] == "POST" and not _JSON.fullmatch(headers.get(b"content-type", b"")):
            # a page of another site may send any other body without asking first
            raise _Refusal(422, "the body is not marked as JSON; send it with Content-Type: application/json")
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._max_body:
            raise self._too_large()

    def _has_key(self, headers: dict[bytes, bytes]) -> bool:
        """Compare with all keys, in the same time whatever was given."""
        kind, _, key = headers.get(b"authorization", b"").partition(b" ")
        given = _digest(key.strip() if kind.lower() == b"bearer" else headers.get(b"x-api-key", b""))
        return max([hmac.compare_digest(given, key) for key in self._keys])

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body; refuse one that is too large or too slow."""
        if scope["method"] == "GET":
            return b""
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Refusal(400, "the connection was closed before the whole request had come")
                    part = message.get("body", b"")
                    parts.append(part)
                    size += len(part)
                    if size > self._max_body:
                        raise self._too_large()
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            sentence = f"the request took more than {self._body_seconds:g} seconds to come; send it faster"
            raise _Refusal(408, sentence, ((b"connection", b"close"),)) from None

    def _too_large(self) -> "_Refusal":
        message = f"a request must have at most {self._max_body:,} bytes; ask in parts"
        return _Refusal(413, message, ((b"connection", b"close"),))


class _Refusal(Exception):
    """An answer with an error."""

    def __init__(self, status: int, sentence: str, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(sentence)
        self._status, self._sentence, self._headers = status, sentence, headers

    async def send(self, send: Send, request_id: str) -> None:
        body = json.dumps({"error": self._sentence, "request_id": request_id}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            *self._headers,
        ]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that hands over the body as a whole, and then what comes after it."""
    is_read = False

    async def receive_body() -> Message:
        nonlocal is_read
        if is_read:
            return await receive()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_body


def _is_local_name(host: str) -> bool:
    """Return whether a Host header is localhost, a name below it, an IP address, or absent.

    A page of another site that made its own name stand for this machine would send that name.
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
        is_local = name in ("", "localhost", "localhost.") or name.endswith((".localhost", ".localhost."))
        return is_local or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def _name_route(scope: Scope) -> str:
    return str(getattr(scope.get("route"), "name", "other"))


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


class JsonLines(logging.Formatter):
    """Writes a record of the log as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)
