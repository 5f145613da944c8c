"""How fast it is: every part beside the same written the obvious way, measured in one run on one machine."""

from spherec.bench.benchmark import QUICK, Scope, measure
from spherec.bench.record import Record

__all__ = ["QUICK", "Record", "Scope", "measure"]
