"""The model in use: learn, recommend, explain, place who is new, save."""

from spherec.recommender.cml import CML
from spherec.recommender.lists import Lists, Reason, Recommended, SimilarItem, SimilarUser

load = CML.load

__all__ = ["CML", "Lists", "Reason", "Recommended", "SimilarItem", "SimilarUser", "load"]
