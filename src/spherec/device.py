"""Where to compute: decided once, at the border; everything behind follows its tensors."""

import threading
from typing import Literal, get_args

import torch

from spherec.errors import ArgumentError

DeviceName = Literal["auto", "cpu", "cuda"]


_streams = threading.local()


def stream_of_thread(purpose: str) -> torch.cuda.Stream:
    """A stream of the thread that asks, the same whenever it asks for this purpose.

    torch hands out the same 32 streams over and over. Were a new one taken each time, two threads would come to share
    one, and what one does there would end up in what the other records.
    """
    streams: dict[str, torch.cuda.Stream] = _streams.__dict__
    if purpose not in streams:
        streams[purpose] = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    return streams[purpose]


def resolve(name: DeviceName | torch.device) -> torch.device:
    """The device of that name; "auto" is the GPU where there is one."""
    if isinstance(name, torch.device):
        return name
    if name not in get_args(DeviceName):
        raise ArgumentError(f"device must be one of {', '.join(get_args(DeviceName))}, got {name!r}")
    found = torch.cuda.is_available()
    if name == "cuda" and not found:
        raise ArgumentError("device is 'cuda', but torch finds no CUDA device; use 'auto' or 'cpu'")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and found) else "cpu")
