"""Servers that tests ask: in a thread of this process, or in a process of its own."""

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import uvicorn

from spherec.serve.app import create_app

SOURCE = Path(__file__).parents[2] / "src"


def wait_until(happens, seconds=60.0):
    """Return what a function returns as soon as it is true."""
    end = time.monotonic() + seconds
    while not (found := happens()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
    return found


@contextmanager
def in_thread(options, **how):
    """The address of a server that runs in a thread."""
    app = create_app(options, **how)
    server = uvicorn.Server(uvicorn.Config(app, port=0, http="h11", ws="none", log_config=None, access_log=False))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def in_process(*arguments, before=None):
    """The address and the process of `spherec serve ARGUMENTS`; its log is in `process.log` when it has ended."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "spherec", "serve", *map(str, arguments), "--port", "0"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=before)
    process.log = []
    reader = threading.Thread(target=lambda: process.log.extend(process.stderr))
    reader.start()
    try:
        yield wait_until(lambda: find_address(process)), process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(60)
        reader.join()
        process.stderr.close()


def find_address(process):
    """Return the address that a process has announced, once it is ready."""
    assert process.poll() is None, "".join(process.log)
    for line in process.log:
        if " at http://" in line:
            address = line.split(" at ")[1].split()[0]
            return address if status_of(address, "/health/ready") == 200 else None
    return None


def status_of(address, path):
    """The status of an answer; None if there is none."""
    try:
        return httpx.get(f"{address}{path}", timeout=10).status_code
    except httpx.TransportError:
        return None


def records_in(log):
    """The records of a log, of which every line is JSON but the first."""
    return [json.loads(line) for line in log[1:]]
