"""Training: settings, the step, the loop, its history and its checkpoints."""

from spherec.training.checkpoint import EpochRecord, History, RunFiles
from spherec.training.config import Training
from spherec.training.crew import Crew, join
from spherec.training.step import Run
from spherec.training.trainer import ProgressCallback, Trained, train

__all__ = [
    "Crew",
    "EpochRecord",
    "History",
    "ProgressCallback",
    "Run",
    "RunFiles",
    "Trained",
    "Training",
    "join",
    "train",
]
