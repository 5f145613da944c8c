"""Experiments: what to run, the runs with their records, and what they come to."""

from spherec.experiments.paper import PaperRow, paper_rows
from spherec.experiments.records import Record, Records
from spherec.experiments.runner import run
from spherec.experiments.spec import Experiment, Row

__all__ = ["Experiment", "PaperRow", "Record", "Records", "Row", "paper_rows", "run"]
