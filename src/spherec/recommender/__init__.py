"""The model in use: train, recommend, explain, fold in new users, save."""

from spherec.recommender.cml import CML, DataOptions, TrainingOptions, UpdateOptions
from spherec.recommender.results import Reason, Recommended, Results, SimilarItem, SimilarUser, merge_lists
from spherec.recommender.trained_model import ListOptions, NearOptions, Query, TrainedModel

load = CML.load

__all__ = [
    "CML",
    "DataOptions",
    "ListOptions",
    "NearOptions",
    "Query",
    "Reason",
    "Recommended",
    "Results",
    "SimilarItem",
    "SimilarUser",
    "TrainedModel",
    "TrainingOptions",
    "UpdateOptions",
    "load",
    "merge_lists",
]
