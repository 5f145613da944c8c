"""Bytes that are not quite HTTP, and clients that do not read: the right status or a closed connection, a short log."""

import re
import resource
import socket
import time
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

import pytest

from tests.serve.running import in_process, records_in, status_of, wait_until

HOST = b"Host: localhost\r\n"
LIVE = b"GET /health/live HTTP/1.1\r\n" + HOST + b"\r\n"
OFFER = b"Upgrade: h2c\r\nConnection: Upgrade\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def post(body, *, extra=b"", length=None):
    """A request for lists; the length of its body is stated unless the extra headers say another."""
    stated = b"Content-Length: %d\r\n" % len(body) if length is None else length
    return (
        b"POST /recommend HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n" + extra + stated + b"\r\n" + body
    )


def with_header(line):
    return LIVE[:-2] + line + b"\r\n\r\n"


LISTS = post(b'{"users": ["u1"]}')
CASES = [  # statuses, in order, and what is sent; an error of HTTP itself ends the connection
    ("400", b"GARBAGE\r\n\r\n"),
    ("400", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40)),  # TLS
    ("404 400", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("400", b"GET /health/live HTTP/1.1\r\n\r\n"),
    ("400", b"GET /\xff HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("400", b"G@T / HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("400", with_header(b"Host: evil")),
    ("400", with_header(b"X : a")),
    ("400", with_header(b"X: a\0b")),
    ("400", with_header(b"X: a\rY: b")),
    ("404", b"CONNECT x:443 HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("404", b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("200", with_header(b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13")),
    *(("400", post(b"{}", length=b"Content-Length: %s\r\n" % n)) for n in (b"-1", b"+2", b"2, 3", b"9" * 30)),
    ("400", post(b"{}", extra=b"Content-Length: 3\r\n")),
    ("400", post(b"2\r\n{}\r\n0\r\n\r\n", extra=CHUNKED)),  # and a length: two ideas of where it ends
    ("422", post(b"2\r\n{}\r\n0\r\n\r\n", length=CHUNKED)),
    ("400", post(b"zz\r\n{}\r\n0\r\n\r\n", length=CHUNKED)),
    ("400", post(b"", length=b"Transfer-Encoding: gzip, chunked\r\n")),
    ("422 400", post(b"{}") + b"XX\r\n\r\n"),
    ("200 200 200", LIVE + LISTS + LIVE),
    ("200 400 200", LIVE + post(LIVE, extra=OFFER) + LIVE),  # the request inside is a body
    ("100 200", post(b'{"users": ["u1"]}', extra=b"Expect: 100-continue\r\n")),
]


def connect(address):
    place = urlsplit(address)
    return socket.create_connection((place.hostname, place.port), timeout=10)


def statuses_of(address, *pieces):
    """Send pieces, then no more, and return the statuses of the answers."""
    with connect(address) as connection:
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(0.02 if len(pieces) < 5 else 0)
        last = b""
        with suppress(TimeoutError, ConnectionResetError):
            connection.settimeout(0.5)
            while piece := connection.recv(65536):
                last += piece
    return b" ".join(re.findall(rb"HTTP/1.1 (\d+)", last)).decode()


@pytest.mark.slow
def test_raw_bytes_get_the_right_status_or_a_closed_connection(model_file):
    with in_process(model_file) as (address, process):
        for statuses, sent in CASES:
            assert statuses_of(address, sent) == statuses, sent[:200]
            half = len(sent) // 2
            assert statuses_of(address, sent[:half], sent[half:]) == statuses, sent[:200]
        assert statuses_of(address, *(bytes([one]) for one in LIVE + post(LIVE, extra=OFFER) + LIVE)) == "200 400 200"
        for sent in (LIVE[:-3], post(b"{}" * 99)[:-50], with_header(b"X: " + b"a" * 2**20)[:-9]):
            assert statuses_of(address, sent) in ("", "400"), "no answer to half a request"
        assert status_of(address, "/health/live") == 200
    assert len(records_in(process.log)) < 10 * len(CASES)


def few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))


@pytest.mark.slow
@pytest.mark.parametrize("asked", [b"", LIVE[:-3], 40 * LIVE.replace(b"health/live", b"openapi.json")])
def test_more_silent_clients_than_files_are_refused_and_the_log_stays_short(model_file, asked):
    """Clients that say nothing, half a request, or much without ever reading an answer."""
    with in_process(model_file, before=few_files) as (address, process):
        with ExitStack() as open_ones:
            for _ in range(150):
                connection = open_ones.enter_context(connect(address))
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                with suppress(OSError):  # it may be closed already
                    connection.sendall(asked)
            time.sleep(1)
            assert status_of(address, "/health/live") in (200, 503, None)  # 200 where the kernel takes all answers
        wait_until(lambda: status_of(address, "/health/live") == 200)
    assert len(records_in(process.log)) < 7000, "a line for each request"
