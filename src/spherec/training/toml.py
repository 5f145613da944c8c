"""A config as TOML, in the form in which `spherec train --config` reads it."""

import json

from spherec.training.config import Training
from spherec.training.configure import AUTO

_BY_SIZE = "by the size of the data"
_WHAT_AUTO_IS = {"subspace_dim": "as dim: one space", "epochs": _BY_SIZE, "validate_every": _BY_SIZE}


def as_toml(config: Training) -> str:
    """Scalars first, then a table for each part; JSON writes numbers, strings and booleans as TOML does."""
    described = config.described()
    scalars = {name: value for name, value in described.items() if not isinstance(value, dict)}
    lines = [
        f"{name} = {json.dumps(AUTO)}  # {_WHAT_AUTO_IS[name]}" if value is None else f"{name} = {json.dumps(value)}"
        for name, value in scalars.items()
    ]
    for name, part in described.items():
        if isinstance(part, dict):
            lines += ["", f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in part.items())]
    return "\n".join(lines)
