"""The model in use: train, recommend, explain, fold in new users, save."""

from spherec.recommender.cml import CML, DataOptions, TrainingOptions
from spherec.recommender.results import Reason, Recommended, Results, SimilarItem, SimilarUser, merge_lists
from spherec.recommender.trained_model import ListOptions, Query, TrainedModel

load = CML.load

__all__ = [
    "CML",
    "DataOptions",
    "ListOptions",
    "Query",
    "Reason",
    "Recommended",
    "Results",
    "SimilarItem",
    "SimilarUser",
    "TrainedModel",
    "TrainingOptions",
    "load",
    "merge_lists",
]
