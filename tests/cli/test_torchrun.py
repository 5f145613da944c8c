"""`torchrun -m spherec train`: one model, one writer, one message, and a restart that resumes."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import spherec
from spherec.distributed.partitions import save_partitions

ROOT = Path(__file__).parents[2]
OPTIONS = ["--set", "sampler.kind=Uniform", "--dim", "8", "--set", "batch_size=64", "--validation", "0"]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux")]


def find_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def start(folder, processes, *words, restarts=0, machine=(0, 1), port=None, device="cpu"):
    """Start processes, on one machine, or on machine r of n, all of which are this one."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    command += ["--node-rank", str(machine[0]), "--nnodes", str(machine[1])]
    command += ["--master-addr", "127.0.0.1", "--master-port", str(port or find_port())]
    command += ["--max-restarts", str(restarts)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1"}
    environment |= {"NCCL_HOSTID": str(machine[0]), "NCCL_SOCKET_IFNAME": "lo"}  # to share the only GPU
    return subprocess.Popen(
        [*command, "-m", "tests.cli.hurried", "train", "--device", device, *OPTIONS, *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def end(process):
    said, _ = process.communicate(timeout=300)
    return process.returncode, said


def kill_one(process, folder):
    """Kill a process of the run once there is a checkpoint."""
    while not (folder / "m.spherec.checkpoint").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    time.sleep(0.5)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)


def vectors_of(path):
    vectors = spherec.load(path).vectors
    return vectors.user_table.numpy(), vectors.item_table.numpy()


@pytest.fixture
def folder(tmp_path):
    rows = (np.random.default_rng(0).random((200, 300)) < 0.1).astype(int)
    spherec.Interactions.from_matrix(rows).save(tmp_path / "data.npz")
    return tmp_path


def test_a_lost_process_ends_the_run_with_one_sentence_and_a_restart_resumes(folder):
    code, said = end(start(folder, 2, "data.npz", "-o", "whole.spherec", "--epochs", "16"))
    assert code == 0, said
    assert said.count("the run is finished") == 1
    assert sorted(path.name for path in folder.iterdir()) == ["data.npz", "whole.spherec"]

    words = ["data.npz", "-o", "m.spherec", "--epochs", "16"]
    process = start(folder, 2, *words)
    kill_one(process, folder)
    began = time.monotonic()
    code, said = end(process)
    assert code != 0
    assert time.monotonic() - began < 30
    assert said.count("error: a process of this run has ended") == 1
    code, said = end(start(folder, 3, *words, "--resume"))
    assert code == 0, said
    assert said.count("continuing in epoch") == 1
    assert all(map(np.array_equal, vectors_of(folder / "m.spherec"), vectors_of(folder / "whole.spherec")))
    (folder / "m.spherec").unlink()

    process = start(folder, 2, *words, restarts=1)
    kill_one(process, folder)
    code, said = end(process)
    assert code == 0, said
    assert "continuing in epoch" in said
    assert all(map(np.array_equal, vectors_of(folder / "m.spherec"), vectors_of(folder / "whole.spherec")))
    assert sorted(path.name for path in folder.iterdir()) == ["data.npz", "m.spherec", "whole.spherec"]


NEEDS_GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.mark.parametrize(("device", "processes"), [("cpu", (2, 1)), pytest.param("cuda", (1, 1), marks=NEEDS_GPU)])
def test_several_machines_train_one_model_and_end_when_one_is_lost(folder, device, processes):
    def start_both(*words):
        port = find_port()
        return [
            start(folder, n, "data.npz", *words, machine=(rank, 2), port=port, device=device)
            for rank, n in enumerate(processes)
        ]

    alone = sum(processes) if device == "cpu" else 1
    code, said = end(start(folder, alone, "data.npz", "-o", "whole.spherec", "--epochs", "4", device=device))
    assert code == 0, said
    ended = [end(machine) for machine in start_both("-o", "m.spherec", "--epochs", "4")]
    assert [code for code, _ in ended] == [0, 0], ended
    assert [said.count("the run is finished") for _, said in ended] == [1, 0]
    for one, other in zip(vectors_of(folder / "m.spherec"), vectors_of(folder / "whole.spherec"), strict=True):
        assert np.array_equal(one, other) if device == "cpu" else np.allclose(one, other, atol=1e-4)
    (folder / "m.spherec").unlink()

    machines = start_both("-o", "m.spherec", "--epochs", "400")
    kill_one(machines[1], folder)
    began = time.monotonic()
    ended = [end(machine) for machine in machines]
    assert time.monotonic() - began < 30
    assert [code for code, _ in ended] == [1, 1], ended
    assert "".join(said for _, said in ended).count("error: a process of this run has ended") == 1


def test_processes_read_their_partitions(folder):
    data = spherec.Interactions.load(folder / "data.npz")
    save_partitions(data, folder / "data.parts", 2)
    words = ["data.parts", "--epochs", "3", "--validation", "0.1"]
    for processes in (1, 2):
        code, said = end(start(folder, processes, *words, "-o", f"{processes}.spherec"))
        assert code == 0, said
    assert all(map(np.array_equal, vectors_of(folder / "1.spherec"), vectors_of(folder / "2.spherec")))
    assert spherec.load(folder / "2.spherec").data == data
    code, said = end(start(folder, 2, *words, "-o", "s.spherec", "--shards"))
    assert code == 0, said
    assert said.count("the run is finished") == 1
    assert len(list(folder.glob("s.spherec.*-of-2.*"))) == 2
    assert all(map(np.array_equal, vectors_of(folder / "1.spherec"), vectors_of(folder / "s.spherec")))
    assert spherec.load(folder / "s.spherec").data == data
    code, said = end(start(folder, 3, *words, "-o", "3.spherec"))
    assert code != 0
    assert said.count("error: ") == 1, said
    assert "has 2 partitions, which 3 processes cannot share alike" in said


def test_an_error_is_printed_once(folder):
    code, said = end(start(folder, 2, "nothing.npz", "-o", "m.spherec"))
    assert code != 0
    assert said.count("error: ") == 1, said
