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
from spherec.serve.server import ImpatientProtocol

SOURCE = Path(__file__).parents[2] / "src"


@contextmanager
def in_thread(options, **how):
    """The address of a server that runs in a thread."""
    app = create_app(options, **how)
    timeout = max(int(options.body_seconds), 1)
    config = uvicorn.Config(
        app, port=0, http=ImpatientProtocol, ws="none", log_config=None, timeout_keep_alive=timeout, access_log=False
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def in_process(*arguments):
    """The address and the process of `spherec serve ARGUMENTS`; its log is in `process.log` when it has ended."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "spherec", "serve", *map(str, arguments), "--port", "0"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    process.log = []
    reader = threading.Thread(target=lambda: process.log.extend(process.stderr))
    reader.start()
    try:
        address = _wait_for_address(process)
        yield address, process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(60)
        reader.join()
        process.stderr.close()


def _wait_for_address(process):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        lines = [line for line in process.log if " at http://" in line]
        if lines:
            address = lines[0].split(" at ")[1].split()[0]
            try:
                if httpx.get(f"{address}/health/ready", timeout=10).status_code == 200:
                    return address
            except httpx.TransportError:
                pass
        assert process.poll() is None, "".join(process.log)
        time.sleep(0.02)
    raise AssertionError("the server did not become ready")


def requests_in(log):
    """The records of requests in a log."""
    records = [json.loads(line) for line in log if line.startswith("{")]
    return [record for record in records if record["event"] == "request"]
