import pytest
import torch

from spherec.device import resolve
from spherec.errors import ArgumentError

without_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")


def test_cpu_is_the_cpu():
    assert resolve("cpu") == torch.device("cpu")


def test_auto_is_the_gpu_where_there_is_one():
    assert resolve("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize(("found", "kind"), [(True, "cuda"), (False, "cpu")])
def test_auto_asks_torch(monkeypatch, found, kind):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: found)
    assert resolve("auto").type == kind
    assert resolve("cpu").type == "cpu"


def test_a_device_stays_itself():
    assert resolve(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.parametrize("name", ["gpu", "CPU", "cuda:0", "", None])
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    with pytest.raises(ArgumentError, match=f"one of auto, cpu, cuda, got {name!r}"):
        resolve(name)


@without_cuda
def test_cuda_without_a_cuda_device_is_refused_with_a_way_out():
    with pytest.raises(ArgumentError, match="no CUDA device; use 'auto' or 'cpu'"):
        resolve("cuda")
