"""How good recommendations are."""

from spherec.evaluation.validation import Validation

__all__ = ["Validation"]
