"""Training against a slow one: whole tables under torch's Adam, losses pair by pair, fed the same batches."""

import math
from dataclasses import replace

import pytest
import torch

from spherec.losses import Hinge, Softmin
from spherec.optim import Adam
from spherec.sampling import Hard, Popularity, TwoStage, Uniform
from tests.oracles import popularity_law
from tests.sampling.checks import random_rows
from tests.training.runs import DATA, QUICK, STEPS, start, trained, watch, watch_dial

EPOCHS = 8
ROWS = random_rows(20, 30, 0.2).tolist()  # of DATA


class Dense:
    """The specification, word by word and in double precision."""

    def __init__(self, config, initial):
        self.config = config
        self.users, self.items = (torch.nn.Parameter(one.double()) for one in (initial.user_table, initial.item_table))
        self.reach = torch.nn.Parameter(torch.zeros(DATA.n_items, dtype=torch.float64))
        betas = config.optimizer.beta1, config.optimizer.beta2
        parameters = [self.users, self.items, self.reach] if config.reach else [self.users, self.items]
        self.adam = torch.optim.Adam(parameters, config.optimizer.learning_rate, betas, eps=1e-8)
        steps = config.epochs * STEPS
        falls = config.optimizer.schedule == "cosine"
        share = (lambda done: (1 + math.cos(math.pi * done / steps)) / 2) if falls else (lambda _: 1.0)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.adam, share)
        counts = [max(sum(row), 1) for row in ROWS]
        total = sum(sum(row) * count**-config.balance for row, count in zip(ROWS, counts, strict=True))
        self.weights = [count**-config.balance * len(DATA) / total for count in counts]
        if isinstance(config.loss, Softmin):
            self.law = popularity_law(ROWS, config.sampler.beta)

    def step(self, users, positives, negatives, valid, dial):
        """The loss of lists of indices [B], [B], [B][N], with [B][N] whether there is a negative; learns from it.

        `dial` [B] has the share of reach that counts for each pair.
        """
        touched = users, positives + [item for row in negatives for item in row]
        self.project(*touched)
        user_vectors, item_vectors = self.vectors()
        loss, similarities = 0.0, []
        for user, positive, row, is_valid, share in zip(users, positives, negatives, valid, dial, strict=True):
            kept = [item for item, counts in zip(row, is_valid, strict=True) if counts]
            one = self.loss(user_vectors[user], item_vectors[positive], item_vectors[kept], positive, kept, share)
            loss = loss + self.weights[user] * one
            similarities.append(item_vectors[kept] @ item_vectors[positive])
        batch = torch.cat((user_vectors[users], item_vectors[positives]))
        self.adam.zero_grad()
        (loss + self.config.covariance * covariance(batch) + self.config.spread_out * spread(similarities)).backward()
        self.adam.step()
        self.schedule.step()
        self.project(*touched)
        return loss.item()

    def loss(self, user, positive, others, item, kept, share):
        """Of one pair, from its vectors, the indices of its item and of its negatives, and its place of the dial."""
        loss = self.config.loss
        near, far = ((user - positive) ** 2).sum(), ((user - others) ** 2).sum(1)
        if self.config.reach:
            unit = loss.temperature if isinstance(loss, Softmin) else 0.1 * loss.margin
            near = near - 2 * share * unit * self.reach[item]
            far = far - 2 * share * unit * self.reach[kept]
        if isinstance(loss, Softmin):
            undone = loss.gamma * (share if self.config.reach else 1)
            bias = torch.tensor([undone * math.log(self.law[item] * DATA.n_items) for item in kept])
            return torch.log(1 + torch.exp((near - far) / (2 * loss.temperature) - bias).sum())
        inside = int((near + loss.margin > far).sum())
        weight = math.log(1 + DATA.n_items * inside / len(kept)) if loss.rank_weight else 1.0
        return weight * torch.relu(near - far.min() + loss.margin)

    def vectors(self):
        """All users and items."""
        on_sphere = self.config.constraint == "sphere"
        return [table / table.norm(dim=1, keepdim=True) if on_sphere else table for table in (self.users, self.items)]

    @torch.no_grad()
    def project(self, users, items):
        if self.config.constraint == "ball":
            for table, touched in ((self.users, users), (self.items, items)):
                for index in set(touched):
                    table[index] /= max(1.0, table[index].norm())


def covariance(vectors):
    cov = vectors.T.cov(correction=0)
    return ((cov**2).sum() - (cov.diag() ** 2).sum()) / len(vectors)


def spread(similarities):
    every = torch.cat(similarities)
    return every.mean() ** 2 + torch.relu((every**2).mean() - 1 / QUICK.dim)


CASES = {
    "hinge": {"sampler": Uniform(3)},
    "narrow hinge": {"sampler": TwoStage(3, candidates=15), "loss": Hinge(margin=0.3)},
    "rank weight": {"sampler": Uniform(4), "loss": Hinge(rank_weight=True)},
    "softmin": {"sampler": Popularity(4, beta=0.8), "loss": Softmin(0.1, gamma=0.5)},
    "shared softmin": {"sampler": Popularity(9, beta=-0.5, shared=True), "loss": Softmin(temperature=0.3)},
    "covariance": {"sampler": Hard(2), "covariance": 300.0},
    "spread out": {"sampler": Uniform(9, shared=True), "spread_out": 30.0},
    "balance": {"sampler": Uniform(3), "balance": 0.5},
    "schedule": {
        "sampler": Popularity(9, shared=True),
        "loss": Softmin(0.1),
        "optimizer": Adam(1e-2, schedule="cosine"),
        "balance": 1,
    },
    "reach": {"sampler": Popularity(9, beta=0.5, shared=True), "loss": Softmin(0.2), "reach": True},
    "reach, own negatives": {"sampler": Popularity(4, beta=0.5), "loss": Softmin(0.2, gamma=0.5), "reach": True},
    "reach, balance": {
        "sampler": Popularity(9, shared=True),
        "loss": Softmin(0.1),
        "reach": True,
        "balance": 1,
        "optimizer": Adam(1e-2, schedule="cosine"),
    },
    "reach, hinge": {"sampler": Uniform(3), "reach": True},
    "other moments": {"sampler": Uniform(2), "optimizer": Adam(3e-2, beta1=0.5, beta2=0.9)},
}


@pytest.mark.parametrize(
    ("case", "constraint"),
    [*((case, "sphere") for case in CASES), *((case, "ball") for case in ("hinge", "softmin", "other moments"))],
)
def test_vectors_and_losses_agree_with_a_dense_trainer(case, constraint, monkeypatch):
    steps, dials = [], []
    watch(monkeypatch, lambda *step: steps.append(step))
    watch_dial(monkeypatch, dials.append)
    settings = {**CASES[case], "constraint": constraint, "epochs": EPOCHS}
    result = trained(initial=start(), **settings)
    dense, losses = Dense(replace(QUICK, **settings), start()), []
    for (users, positives, negatives), dial in zip(steps, dials, strict=True):
        items, share = negatives.items.expand(len(users), -1), torch.ones(len(users)) if dial is None else dial
        losses.append(dense.step(*(one.tolist() for one in (users, positives, items, negatives.valid, share))))
    dense.project(range(DATA.n_users), range(DATA.n_items))
    vectors = result.vectors
    for table, expected in zip((vectors.user_table, vectors.item_table), dense.vectors(), strict=True):
        torch.testing.assert_close(table, expected.detach().float(), atol=1e-4, rtol=0)
    if settings.get("reach"):
        unit = replace(QUICK, **settings).loss.distance_scale
        assert vectors.reach.abs().max() > 0.01
        torch.testing.assert_close(vectors.reach, (unit * dense.reach).detach().float(), atol=1e-4, rtol=0)
    per_epoch = [sum(losses[first : first + STEPS]) / len(DATA) for first in range(0, EPOCHS * STEPS, STEPS)]
    assert [record.loss for record in result.history.epochs] == pytest.approx(per_epoch, abs=1e-4)
