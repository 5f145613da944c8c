"""Running the server: keys, limits, a full queue, new models under load, many connections, an orderly end."""

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

import httpx
import pytest

from spherec.errors import ArgumentError
from spherec.recommender import load
from spherec.serve import ServeOptions
from spherec.serve.served_model import ServedModel
from tests.recommender.models import model_of, small
from tests.serve.running import in_process, in_thread, records_in, status_of, wait_until
from tests.serve.test_parity import pairs, rows

KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def limited(model_file, tmp_path_factory):
    """The address of a server with keys and a small limit of bodies."""
    keys = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text(f"# the keys\n{KEY}\n{KEY[::-1]}\n")
    with in_thread(ServeOptions(model_file, api_key_file=keys, max_body=2000, log_requests=False)) as address:
        yield address


def connect(address):
    host, _, port = address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def post(address, content, **headers):
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json", **headers}
    return httpx.post(f"{address}/recommend", content=content, headers=headers)


# --- who may ask, and what ---


def test_keys_are_asked_for(limited):
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"X-Api-Key": KEY[:-1]}, {"Authorization": KEY}):
        for path in ("/model", "/map", "/map/start", "/map/items", "/metrics", "/docs", "/nothing", "/pagex"):
            answer = httpx.get(f"{limited}{path}", headers=headers)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    for headers in ({"Authorization": f"Bearer {KEY}"}, {"X-Api-Key": KEY[::-1]}):
        assert httpx.get(f"{limited}/model", headers={**headers, "Host": "example.org"}).status_code == 200
    for path in ("/health/live", "/", "/page/app.js"):
        assert status_of(limited, path) == 200


NAMES = {"localhost:80": 200, "127.0.0.1": 200, "[::1]:80": 200, "": 200, "example.org": 421, "[": 421}
NAMES |= {"localhost.": 200, "LOCALHOST.:80": 200, "books.localhost:80": 200, "nolocalhost": 421}


def test_without_keys_a_foreign_name_is_refused_on_this_machine(model_file):
    with in_thread(ServeOptions(model_file, log_requests=False), is_local=True) as address:
        seen = {name: httpx.get(f"{address}/model", headers={"Host": name}).status_code for name in NAMES}
    assert seen == NAMES


@pytest.mark.parametrize("mark", ["", "text/plain", "text/plain; application/json", "application/jsonp", "x/json"])
def test_a_body_that_is_not_marked_as_json(limited, mark):
    marks = {mark: 422, "Application/JSON; charset=utf-8": 200, "application/vnd.x+json": 200}
    assert {mark: post(limited, b'{"users": ["u1"]}', **{"Content-Type": mark}).status_code for mark in marks} == marks


@pytest.mark.parametrize("content", ["", "short", "with a space in the middle of it", "ümlaut-ümlaut-ümlaut"])
def test_weak_keys_are_refused(tmp_path, content):
    (tmp_path / "keys").write_text(content)
    with pytest.raises(ArgumentError, match="openssl rand"):
        ServeOptions(tmp_path, api_key_file=tmp_path / "keys").read_keys()


@pytest.mark.parametrize(
    ("content", "status", "part"),
    [
        (b'{"users": [', 400, "JSON"),
        (b"\xff\xfe", 400, ""),
        (b"[]", 422, ""),
        (b'{"users": ["\\ud800"]}', 404, "ud800"),
        (b'{"users": [{"a": 1}]}', 422, "users.0"),
        (b'{"vectors": [[NaN]]}', 422, "vectors.0.0"),
        (b'{"users": [' + b"9" * 1500 + b"]}", 404, "99…"),
        (b'{"users": ["' + b"x" * 2000 + b'"]}', 413, "2,000"),
        (iter([b'{"users": ["', b"x" * 5000, b'"]}']), 413, "2,000"),  # without a length
    ],
)
def test_bodies_that_are_none(limited, content, status, part):
    answer = post(limited, content)
    assert answer.status_code == status, answer.text
    assert part in answer.json()["error"]
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("change", [{"port": 70000}, {"workers": 0}, {"queue": 0}, {"max_lists": 600}, {"threads": 0}])
def test_options_out_of_range_are_refused(model_file, change):
    with pytest.raises(ArgumentError, match=next(iter(change))):
        replace(ServeOptions(model_file), **change)


# --- load ---


def test_a_full_queue_answers_503_at_once(model_file, monkeypatch):
    opened, rank = threading.Event(), ServedModel.rank
    monkeypatch.setattr(ServedModel, "rank", lambda served, queries: opened.wait(10) and rank(served, queries))
    options = ServeOptions(model_file, queue=2, max_lists=2, log_requests=False)
    with in_thread(options) as address, ThreadPoolExecutor(12) as threads:
        asked = [threads.submit(httpx.get, f"{address}/recommend/u1", timeout=20) for _ in range(12)]
        wait_until(lambda: sum(one.done() for one in asked) >= 8)
        opened.set()
        answers = [(one.result().status_code, one.result().headers.get("retry-after")) for one in asked]
    assert set(answers) == {(200, None), (503, "1")}
    assert 8 <= answers.count((503, "1")) <= 9, "one or two are ranked, two wait"


def test_models_are_swapped_under_load(model_file, tmp_path):
    path, stop, answers = tmp_path / "model.spherec", threading.Event(), []
    files = [model_file, *(tmp_path / f"{seed}.spherec" for seed in range(2, 22))]
    for seed, file in enumerate(files[1:], start=2):
        model_of(small(), seed=seed, mainstream=0.4).save(file)
    versions = {model.artifact.checksum: model for model in map(load, files)}
    shutil.copy(model_file, path)

    def ask(seed):
        rng = random.Random(seed)
        with httpx.Client(base_url=address, timeout=30) as client:
            while not stop.is_set():
                user = f"u{rng.randrange(12)}"
                answers.append((user, client.get(f"/recommend/{user}", params={"k": 5, "explain": 1})))

    def put(file):
        shutil.copy(file, tmp_path / "next")
        (tmp_path / "next").replace(path)

    options = ServeOptions(path, watch_seconds=0.01, log_requests=False)
    with in_thread(options) as address, ThreadPoolExecutor(3) as threads:
        asking = [threads.submit(ask, seed) for seed in range(3)]
        try:
            for checksum, file in zip(versions, files, strict=True):
                put(file)
                wait_until(lambda wanted=checksum: httpx.get(f"{address}/model", timeout=30).json()["model"] == wanted)
            put(__file__)
            wait_until(lambda: "spherec_model_failures_total 1" in httpx.get(f"{address}/metrics").text)
        finally:
            stop.set()
        for one in asking:
            one.result()
        metrics = httpx.get(f"{address}/metrics").text
    assert f'spherec_model_info{{checksum="{[*versions][-1]}"}} 1.0' in metrics, "the old model stays"
    assert {answer.status_code for _, answer in answers} == {200}
    assert {answer.json()["model"] for _, answer in answers} <= set(versions)
    for user, answer in random.Random(0).sample(answers, min(len(answers), 150)):
        model = versions[answer.json()["model"]]
        assert pairs(answer.json()["items"]) == rows(model.recommend(user, 5)), "it is of the model that it names"


# --- the end, and several processes ---


def ask_until_told_to_leave(address, seen, stop):
    """Ask on one connection after the other until the server takes no more; note what comes of it."""
    with httpx.Client(base_url=address, timeout=20) as client:
        while not stop.is_set():
            try:
                seen.append(client.get("/recommend/u1", params={"k": 5}).status_code)
            except httpx.ConnectError:
                return
            except httpx.TransportError as error:
                seen.append(repr(error))
                return


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_under_load_answers_every_request(model_file, workers):
    seen, stop = [], threading.Event()
    with in_process(model_file, "--workers", workers) as (address, process):
        asking = [threading.Thread(target=ask_until_told_to_leave, args=(address, seen, stop)) for _ in range(8)]
        for thread in asking:
            thread.start()
        time.sleep(1.0)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: status_of(address, "/health/ready") == 503)
        for thread in asking:
            thread.join()
        assert process.wait(30) == 0
    assert len(seen) > 100
    assert set(seen) == {200}, "".join(line for line in process.log if '"info"' not in line)
    logged = [record for record in records_in(process.log) if record["event"] == "request"]
    assert sum(record["path"] == "/recommend/u1" for record in logged) == len(seen)
    assert {record["status"] for record in logged} <= {200, 503}
    assert all(record["request_id"] and record["ms"] >= 0 for record in logged)


@pytest.mark.slow
def test_workers_report_the_sum_of_their_counts_and_are_started_anew(model_file, tmp_path):
    path = tmp_path / "model.spherec"
    shutil.copy(model_file, path)
    with in_process(path, "--workers", 2) as (address, process):
        for _ in range(40):
            assert status_of(address, "/model") == 200
        count = 'spherec_requests_total{route="model",status="200"} 40.0'
        assert count in httpx.get(f"{address}/metrics").text
        workers = worker_ids(process)
        assert len(workers) == 2
        assert mapped_files(workers[0]) & mapped_files(workers[1]) >= {str(path)}, "they share one copy"
        os.kill(workers[0], signal.SIGKILL)
        wait_until(lambda: len(worker_ids(process)) == 2 and worker_ids(process) != workers)
        both = f'checksum="{load(path).artifact.checksum}"}} 2.0'
        wait_until(lambda: both in httpx.get(f"{address}/metrics").text)
        assert count in httpx.get(f"{address}/metrics").text, "counts of the dead one stay"
        model_of(small(), seed=7, mainstream=0.4).save(tmp_path / "next")
        (tmp_path / "next").replace(path)
        both = f'checksum="{load(path).artifact.checksum}"}} 2.0'
        wait_until(lambda: both in httpx.get(f"{address}/metrics").text)


def worker_ids(process):
    """The processes that answer, of which `process` is the parent."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(one) for one in children if "spawn_main" in Path(f"/proc/{one}/cmdline").read_text()]


def mapped_files(process):
    return {line.split()[-1] for line in Path(f"/proc/{process}/maps").read_text().splitlines()}


@pytest.mark.slow
def test_workers_that_cannot_start_end_the_server(model_file, tmp_path):
    (tmp_path / "items.csv").write_text("id,author\nx,y\n")
    arguments = (model_file, "--workers", 2, "--items", tmp_path / "items.csv")
    with pytest.raises(AssertionError, match="none of the model's items"), in_process(*arguments):
        pass
