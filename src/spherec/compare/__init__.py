"""Our models and their peers on the same folds, tuned with the same budget, tested by the same code."""

from spherec.compare.contender import Contender, How, Peer
from spherec.compare.contenders import PEERS, contenders, default_models, known_models
from spherec.compare.record import Folder, Result, Trial
from spherec.compare.running import run
from spherec.compare.study import Comparison, Study
from spherec.compare.table import Line, as_csv, lines

__all__ = [
    "PEERS",
    "Comparison",
    "Contender",
    "Folder",
    "How",
    "Line",
    "Peer",
    "Result",
    "Study",
    "Trial",
    "as_csv",
    "contenders",
    "default_models",
    "known_models",
    "lines",
    "run",
]
