"""Rankers: the nearest items, behind one protocol. `spherec.ranking.usearch` has the one for millions of items."""

from spherec.ranking.exact import ExactRanker
from spherec.ranking.ranker import MergedRanker, Ranker, Ranking

__all__ = ["ExactRanker", "MergedRanker", "Ranker", "Ranking"]
