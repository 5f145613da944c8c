"""Training: the loop, what it remembers, and how it goes on after a stop."""

from spherec.training.config import Training
from spherec.training.history import EpochRecord, History
from spherec.training.trainer import ProgressCallback, Trained, train

__all__ = ["EpochRecord", "History", "ProgressCallback", "Trained", "Training", "train"]
