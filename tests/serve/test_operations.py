"""Running the server: keys, limits, slow clients, a full queue, new models under load, an orderly end."""

import asyncio
import json
import os
import random
import shutil
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("httpx", reason="needs httpx, of the extra dev")

import httpx

from spherec.errors import ArgumentError, SpherecError
from spherec.recommender import load
from spherec.serve import ServeOptions, batcher, server
from spherec.serve.guard import RequestGuard
from tests.recommender.models import model_of, small
from tests.serve.running import in_process, in_thread, requests_in

KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def limited(model_file, tmp_path_factory):
    """The address of a server with a key and small limits."""
    keys = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text(f"# the keys\n{KEY}\n{KEY[::-1]}\n")
    options = ServeOptions(model_file, api_key_file=keys, max_body=2000, body_seconds=1.0, log_requests=False)
    with in_thread(options) as address:
        yield address


def raw(address, text, *, pause=0.0, parts=()):
    """Send bytes as they are, and return all that comes back."""
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(text)
        for part in parts:
            time.sleep(pause)
            connection.sendall(part)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer.decode()


def test_keys_are_asked_for(limited):
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"X-Api-Key": KEY[:-1]}, {"Authorization": KEY}):
        answer = httpx.get(f"{limited}/model", headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert "needs a key" in answer.json()["error"]
    for headers in ({"Authorization": f"Bearer {KEY}"}, {"X-Api-Key": KEY[::-1]}):
        assert httpx.get(f"{limited}/model", headers=headers).status_code == 200
    assert httpx.get(f"{limited}/health/live").status_code == 200


NAMES = {"localhost:80": 200, "127.0.0.1": 200, "[::1]:80": 200, "": 200, "example.org": 421, "[": 421}
NAMES |= {"localhost.": 200, "LOCALHOST.:80": 200, "books.localhost:80": 200, "nolocalhost": 421}


def test_without_keys_a_foreign_name_is_refused_on_this_machine(model_file):
    options = ServeOptions(model_file, log_requests=False)
    with in_thread(options, is_local=True) as address:
        seen = {name: httpx.get(f"{address}/model", headers={"Host": name}).status_code for name in NAMES}
        refused = httpx.get(f"{address}/", headers={"Host": "localhost.example.org"})
    assert seen == NAMES
    assert refused.status_code == 421
    assert "let a proxy send Host: localhost, or start the server with --api-key-file" in refused.json()["error"]


def test_with_keys_any_name_will_do(model_file, tmp_path):
    (tmp_path / "keys").write_text(KEY)
    headers = {"Host": "example.org", "X-Api-Key": KEY}
    with in_thread(ServeOptions(model_file, api_key_file=tmp_path / "keys"), is_local=True) as address:
        assert httpx.get(f"{address}/model", headers=headers).status_code == 200


MARKS = {"application/json": 200, "Application/JSON; charset=utf-8": 200, "application/vnd.x+json": 200}
MARKS |= {"": 422, "text/plain": 422, "text/plain; application/json": 422, "application/jsonp": 422, "x/json": 422}


def test_a_body_that_is_not_marked_as_json():
    async def answer(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    limits = {"max_body": 2000, "body_seconds": 1.0, "is_stopping": lambda: False, "log_requests": False}
    guard = RequestGuard(answer, keys=(), is_local=True, metrics=SimpleNamespace(count_request=print), **limits)

    async def ask():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url="http://localhost") as client:
            return [await client.post("/items", content=b"{}", headers={"Content-Type": mark}) for mark in MARKS]

    answers = asyncio.run(ask())
    assert [one.status_code for one in answers] == list(MARKS.values())
    assert "Content-Type: application/json" in answers[-1].json()["error"]


@pytest.mark.parametrize("content", ["", "short", "with a space in the middle of it", "ümlaut-ümlaut-ümlaut"])
def test_weak_keys_are_refused(tmp_path, content):
    (tmp_path / "keys").write_text(content)
    with pytest.raises(ArgumentError, match="openssl rand"):
        ServeOptions(tmp_path, api_key_file=tmp_path / "keys").read_keys()


def post(address, content, **headers):
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json", **headers}
    return httpx.post(f"{address}/recommend", content=content, headers=headers)


@pytest.mark.parametrize(
    ("content", "status", "part"),
    [
        (b'{"users": [', 400, "no JSON"),
        (b"[" * 1500, 400, ""),
        (b"\xff\xfe", 400, ""),
        (b"[]", 422, ""),
        (b'"x"', 422, ""),
        (b'{"users": ["\\ud800"]}', 404, "is not among"),
        (b'{"users": [{"a": 1}]}', 422, "users.0"),
        (b'{"vectors": [[NaN]]}', 422, "vectors.0.0"),
        (b'{"users": [' + b"9" * 1500 + b"]}", 404, "more than 77 digits"),
        (b'{"users": ["u1"], "k": 1e999}', 422, "k"),
        (b'{"users": ["' + b"x" * 2000 + b'"]}', 413, "at most 2,000 bytes"),
    ],
)
def test_bodies_that_are_none(limited, content, status, part):
    answer = post(limited, content)
    assert answer.status_code == status, answer.text
    assert part in answer.json()["error"]
    assert "Traceback" not in answer.text


def test_a_body_without_a_length_is_limited_too(limited):
    answer = post(limited, iter([b'{"users": ["', b"x" * 5000, b'"]}']))
    assert answer.status_code == 413


def test_slow_clients_are_told_to_leave(limited):
    head = f"POST /recommend HTTP/1.1\r\nHost: x\r\nX-Api-Key: {KEY}\r\nContent-Type: application/json\r\n"
    head += "Content-Length: 100\r\n"
    slow = [(f"{head}\r\n", b"a"), (head, b"X-A: a\r\n"), ("", b""), ("GET /mo", b"d")]
    with ThreadPoolExecutor(4) as threads:
        for answer in threads.map(lambda one: raw(limited, one[0].encode(), pause=0.3, parts=[one[1]] * 2), slow):
            assert answer.startswith("HTTP/1.1 408"), answer
            assert json.loads(answer.partition("\r\n\r\n")[2])["error"].startswith("the request took")


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/model", "/recommend/u1", "/", "/page/app.js"])
def test_head_is_get_without_a_body(client, path):
    head, got = client.head(path), client.get(path)
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-length", "content-type"):
        assert head.headers[name] == got.headers[name]


def test_another_protocol_is_not_taken_up(limited, caplog):
    head = f"GET /model HTTP/1.1\r\nHost: x\r\nX-Api-Key: {KEY}\r\nConnection: Upgrade\r\n"
    for protocol in ("websocket", "h2c"):
        answer = raw(limited, f"{head}Upgrade: {protocol}\r\n\r\n".encode())
        assert answer.startswith("HTTP/1.1 200"), answer
    answer = post(limited, b'{"users": ["u1"], "k": 2}', Connection="Upgrade, HTTP2-Settings", Upgrade="h2c")
    assert len(answer.json()["lists"][0]["items"]) == 2, "the body is read"
    assert not caplog.records


def test_headers_have_an_end(limited):
    answer = raw(limited, b"GET /model HTTP/1.1\r\n", parts=[b"X-A: " + b"a" * 50_000 + b"\r\n"] * 2)
    assert answer.startswith("HTTP/1.1 431"), answer


def test_what_is_no_http_is_refused(limited):
    answer = raw(limited, b"\x16\x03\x01hello\r\n\r\n")
    assert answer.startswith("HTTP/1.1 400")
    assert json.loads(answer.partition("\r\n\r\n")[2])["error"] == "this is no HTTP request"


def test_a_full_queue_answers_503_at_once(model_file, monkeypatch):
    opened = threading.Event()

    def wait_and_rank(queries):
        assert opened.wait(10)
        return rank_together(queries)

    rank_together = batcher.rank_together
    monkeypatch.setattr(batcher, "rank_together", wait_and_rank)
    options = ServeOptions(model_file, queue=2, max_lists=2, log_requests=False)
    with in_thread(options) as address, ThreadPoolExecutor(12) as threads:
        asked = [threads.submit(httpx.get, f"{address}/recommend/u1", timeout=20) for _ in range(12)]
        end = time.monotonic() + 10
        while sum(one.done() for one in asked) < 8 and time.monotonic() < end:
            time.sleep(0.01)
        opened.set()
        answers = [one.result() for one in asked]
    refused = [answer for answer in answers if answer.status_code == 503]
    assert 8 <= len(refused) <= 9, "one or two are ranked, two wait"
    assert {answer.headers["retry-after"] for answer in refused} == {"1"}
    assert {answer.status_code for answer in answers} == {200, 503}


def pairs(items):
    return [(item["id"], item["score"]) for item in items]


def test_models_are_swapped_under_load(model_file, tmp_path):
    path = tmp_path / "model.spherec"
    versions = {}
    files = [model_file]
    for seed in range(2, 22):
        files.append(tmp_path / f"{seed}.spherec")
        model_of(small(), seed=seed, mainstream=0.4).save(files[-1])
    for file in files:
        model = load(file)
        versions[model.artifact.checksum] = model
    shutil.copy(files[0], path)
    stop, answers = threading.Event(), []

    def ask(address, seed):
        rng = random.Random(seed)
        with httpx.Client(base_url=address, timeout=30) as client:
            while not stop.is_set():
                user = f"u{rng.randrange(12)}"
                answers.append((user, client.get(f"/recommend/{user}", params={"k": 5, "explain": 1})))

    def swap_all(address):
        for file in files[1:]:
            copy = tmp_path / "next"
            shutil.copy(file, copy)
            copy.replace(path)
            wanted = load(file).artifact.checksum
            end = time.monotonic() + 30
            while httpx.get(f"{address}/model", timeout=30).json()["model"] != wanted:
                assert time.monotonic() < end
                time.sleep(0.005)

    options = ServeOptions(path, watch_seconds=0.01, log_requests=False)
    with in_thread(options) as address, ThreadPoolExecutor(3) as threads:
        asking = [threads.submit(ask, address, seed) for seed in range(3)]
        try:
            swap_all(address)
        finally:
            stop.set()
        for one in asking:
            one.result()
        metrics = httpx.get(f"{address}/metrics").text
    assert "spherec_model_swaps_total 20" in metrics
    assert len(versions) == 21
    assert {answer.status_code for _, answer in answers} == {200}
    assert {answer.json()["model"] for _, answer in answers} <= set(versions)
    for user, answer in random.Random(0).sample(answers, min(len(answers), 150)):
        model = versions[answer.json()["model"]]
        results = model.recommend(user, 5)
        expected = list(zip(results.columns["item"], results.columns["score"], strict=True))
        assert pairs(answer.json()["items"]) == expected, "an answer is of the model that it names"


def test_a_file_that_cannot_be_used_leaves_the_old_model_in_place(model_file, tmp_path):
    path = tmp_path / "model.spherec"
    shutil.copy(model_file, path)
    options = ServeOptions(path, watch_seconds=0.01, log_requests=False)
    with in_thread(options) as address:
        (tmp_path / "bad").write_bytes(b"nonsense")
        (tmp_path / "bad").replace(path)
        end = time.monotonic() + 10
        while "spherec_model_failures_total 1" not in httpx.get(f"{address}/metrics").text:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert httpx.get(f"{address}/recommend/u1").status_code == 200


def ask_until_stopped(address, seen, lock):
    """Ask on open connections until the server takes no more; count what was sent and what was answered."""
    with httpx.Client(base_url=address, timeout=20) as client:
        while True:
            try:
                answer = client.get("/recommend/u1", params={"k": 5})
            except httpx.ConnectError:
                return
            except httpx.TransportError as error:
                with lock:
                    seen.append(repr(error))
                return
            with lock:
                seen.append(answer.status_code)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_under_load_answers_every_request(model_file, workers):
    seen, lock = [], threading.Lock()
    with in_process(model_file, "--workers", workers) as (address, process):
        threads = [threading.Thread(target=ask_until_stopped, args=(address, seen, lock)) for _ in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(1.0)
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join()
        assert process.wait(30) == 0
    assert len(seen) > 100
    assert set(seen) == {200}, "".join(line for line in process.log if '"info"' not in line)
    logged = requests_in(process.log)
    assert sum(record["path"] == "/recommend/u1" for record in logged) == len(seen)
    assert {record["status"] for record in logged} <= {200, 503}
    assert all(record["request_id"] and record["ms"] >= 0 for record in logged)


@pytest.mark.slow
@pytest.mark.parametrize(("host", "status"), [("127.0.0.1", 421), ("0.0.0.0", 200)])
def test_a_foreign_name_is_refused_where_only_this_machine_can_ask(model_file, host, status):
    with in_process(model_file, "--host", host) as (address, _):
        assert httpx.get(f"{address}/model", headers={"Host": "example.org"}).status_code == status


@pytest.mark.slow
def test_processes_report_the_sum_of_their_counts_and_are_started_anew(model_file):
    with in_process(model_file, "--workers", 2) as (address, process):
        for _ in range(40):
            assert httpx.get(f"{address}/model").status_code == 200
        text = httpx.get(f"{address}/metrics").text
        (count,) = [line.split()[1] for line in text.splitlines() if 'route="model",status="200"' in line]
        assert count == "40"
        workers = worker_ids(process)
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        end = time.monotonic() + 30
        while len(worker_ids(process)) < 2 or worker_ids(process) == workers:
            assert time.monotonic() < end
            time.sleep(0.05)
        text = httpx.get(f"{address}/metrics").text
        assert 'spherec_requests_total{route="model",status="200"} 40' in text, "counts of the dead one stay"


def worker_ids(process):
    """The processes that answer, of which `process` is the parent."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(one) for one in children if "spawn_main" in Path(f"/proc/{one}/cmdline").read_text()]


def test_requests_wait_until_a_process_has_loaded_the_model(model_file, monkeypatch):
    def connect(_, listener, __):
        socket.create_connection(listener.getsockname(), timeout=5).close()

    monkeypatch.setattr(server, "_supervise", connect)
    server.serve(ServeOptions(model_file, workers=2, port=0))


class DeadProcess:
    """A process that ends at once."""

    exitcode, pid, started = 1, None, 0

    def __init__(self, **_):
        pass

    def start(self):
        DeadProcess.started += 1

    def is_alive(self):
        return False

    def join(self):
        pass


def test_processes_that_cannot_start_are_given_up(model_file, tmp_path, monkeypatch):
    monkeypatch.setattr(server.multiprocessing, "get_context", lambda _: SimpleNamespace(Process=DeadProcess))
    pauses = []
    monkeypatch.setattr(server.time, "sleep", pauses.append)
    with socket.socket() as listener, pytest.raises(SpherecError, match="cannot start"):
        server._supervise(ServeOptions(model_file, workers=2), listener, tmp_path)
    assert DeadProcess.started == 6
    assert max(pauses) >= 1.5, "each pause is longer than the last"


def test_options_out_of_range_are_refused(model_file):
    options = ServeOptions(model_file)
    for change in ({"port": 70000}, {"workers": 0}, {"queue": 0}, {"max_lists": 600}, {"threads": 0}):
        with pytest.raises(ArgumentError):
            replace(options, **change)
