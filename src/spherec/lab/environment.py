"""The environment of a result, so that it can be made again."""

import os
import platform
import subprocess
from pathlib import Path

import numpy as np
import torch

from spherec._version import __version__


def environment_of(device: torch.device) -> dict[str, str]:
    """Return commit, device and versions."""
    on_gpu, threads = device.type == "cuda", torch.get_num_threads()
    return {
        "spherec": __version__,
        "commit": _commit(),
        "device": torch.cuda.get_device_name(device) if on_gpu else f"CPU, {threads} thread{'s' * (threads > 1)}",
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
    }


def _commit() -> str:
    """Return the commit of the code, marked if it was changed since; SPHEREC_COMMIT where there is no clone."""
    if given := os.environ.get("SPHEREC_COMMIT"):
        return given
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()
