"""Who can be compared, by name."""

from collections.abc import Sequence

from spherec.compare.contender import Contender
from spherec.compare.ease import Ease
from spherec.compare.implicit_peers import Als, Bpr, Knn
from spherec.compare.most_popular import MostPopular
from spherec.compare.ours import Ours
from spherec.errors import ArgumentError, suggest
from spherec.training.presets import PRESETS

PEERS: dict[str, Contender] = {peer.name: peer for peer in (Ease(), Als(), Bpr(), Knn(), MostPopular())}
"""What a user might take instead."""

_OURS = ("accurate", "balanced", "niche")


def default_models() -> list[str]:
    """Our presets for everyday use, and all peers."""
    return [*_OURS, *PEERS]


def known_models() -> list[str]:
    """All names."""
    return [*PRESETS, *PEERS]


def contenders(names: Sequence[str]) -> list[Contender]:
    """Those of these names, each once; an error for a name that nobody has."""
    if not names:
        raise ArgumentError(f"there are no models to compare; name some of {', '.join(known_models())}")
    for name in names:
        if name not in known_models():
            known = known_models()
            raise ArgumentError(
                f"there is no model called {name!r}{suggest(name, known)}; there are {', '.join(known)}"
            )
    return [PEERS[name] if name in PEERS else Ours.preset(name) for name in dict.fromkeys(names)]
