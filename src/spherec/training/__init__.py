"""Training: settings, the step, the loop, its history and its checkpoints."""

from spherec.training.config import Training
from spherec.training.history import EpochRecord, History
from spherec.training.trainer import ProgressCallback, Trained, train

__all__ = ["EpochRecord", "History", "ProgressCallback", "Trained", "Training", "train"]
