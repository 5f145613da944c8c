"""Who is nearest: rankers behind one way of asking."""

from spherec.ranking.exact import ExactRanker, Ranking

__all__ = ["ExactRanker", "Ranking"]
