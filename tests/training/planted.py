"""Planted clusters: users like the items of their own cluster, so it is known what to recommend."""

import numpy as np

from spherec.data.interactions import Interactions
from spherec.optim import Adam
from spherec.training import Training
from tests.oracles import mean_ndcg

CLUSTERS, USERS, ITEMS, HELD_OUT = 10, 20, 12, 2
"""Of each cluster: users, items, and items of each user that are held out."""

SETTINGS = Training(dim=16, optimizer=Adam(1e-2), batch_size=64, epochs=10)
GOOD = 0.9


def planted():
    """Training data, and {user: items held out}."""
    user_cluster, item_cluster = (np.arange(CLUSTERS * count) % CLUSTERS for count in (USERS, ITEMS))
    likes = (user_cluster[:, None] == item_cluster).astype(int)
    random = np.random.default_rng(0)
    held_out = {user: random.choice(np.flatnonzero(row), HELD_OUT, replace=False) for user, row in enumerate(likes)}
    for user, items in held_out.items():
        likes[user, items] = 0
    return Interactions.from_matrix(likes), {user: set(items.tolist()) for user, items in held_out.items()}


TRAIN, TEST = planted()


def quality(vectors):
    """NDCG on what was held out, at the number of items of a cluster."""
    own = {user: set(TRAIN.items_of(user).tolist()) for user in range(TRAIN.n_users)}
    users, items = (table.tolist() for table in (vectors.user_table, vectors.item_table))
    return mean_ndcg(users, items, own, TEST, ITEMS)
