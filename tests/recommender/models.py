"""What tests of the model in use share: models without training."""

from dataclasses import replace

import numpy as np
import torch

from spherec.artifact import Artifact
from spherec.data.interactions import Interactions
from spherec.geometry import DenseVectors
from spherec.recommender import CML
from spherec.recommender.trained_model import ModelState
from spherec.sampling import Uniform
from spherec.training import History, Trained, Training
from tests.sampling.checks import directions, generator

USERS, ITEMS = [f"u{n}" for n in range(12)], [f"i{n}" for n in range(30)]


def model_of(data, dim=6, constraint="sphere", seed=1, mainstream=None):
    """A model of the data with random vectors; with a random reach in two subspaces if it has a `mainstream`."""
    users, items = directions(data.n_users, dim, seed), directions(data.n_items, dim, seed + 1)
    if constraint == "ball":
        users, items = (rows * torch.linspace(0.2, 1, len(rows))[:, None] for rows in (users, items))
    config = Training(dim=dim, constraint=constraint, sampler=Uniform(2), epochs=2)
    vectors = DenseVectors(users, items, constraint)
    if mainstream is not None:
        reach = torch.empty(data.n_items, 2).normal_(0.1, 0.3, generator=generator(seed + 2))
        vectors = replace(vectors, item_reach=reach, mainstream=mainstream)
        config = replace(config, subspace_dim=dim // 2, reach=True, mainstream=mainstream)
    trained = Trained(vectors, config, History(), "all epochs done")
    return make(Artifact.of(trained, data))


def make(content):
    """The model with the content of a model file."""
    model = CML.from_config(content.config, device="cpu")
    model._current = ModelState(content)
    return model


def small(density=0.3, seed=0, users=USERS, items=ITEMS):
    rows = np.random.default_rng(seed).random((len(users), len(items))) < density
    return Interactions.from_matrix(rows, user_ids=users, item_ids=items)
