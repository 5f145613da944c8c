"""Benchmarks: each part timed in turns with a plain implementation, in one run on one machine."""

from spherec.bench.benchmark import QUICK, BenchmarkPlan, measure
from spherec.bench.report import Report

__all__ = ["QUICK", "BenchmarkPlan", "Report", "measure"]
