"""The model in use: train, recommend, explain, fold in new users, save."""

from spherec.recommender.cml import CML
from spherec.recommender.results import Reason, Recommended, Results, SimilarItem, SimilarUser, merge_lists
from spherec.recommender.trained_model import Query, TrainedModel

load = CML.load

__all__ = [
    "CML",
    "Query",
    "Reason",
    "Recommended",
    "Results",
    "SimilarItem",
    "SimilarUser",
    "TrainedModel",
    "load",
    "merge_lists",
]
