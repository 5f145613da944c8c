"""Where to compute: decided once, at the border; everything behind follows its tensors."""

from typing import Literal, get_args

import torch

from spherec.errors import ArgumentError

DeviceName = Literal["auto", "cpu", "cuda"]


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
