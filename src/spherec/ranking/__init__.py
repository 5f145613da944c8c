"""Who is nearest: rankers behind one way of asking. `spherec.ranking.usearch` has the one for millions of items."""

from spherec.ranking.exact import ExactRanker
from spherec.ranking.ranker import Ranker, Ranking

__all__ = ["ExactRanker", "Ranker", "Ranking"]
