"""One step of training: sample negatives, gather rows, compute their gradient, move them."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spherec import rng
from spherec.data.events import pair_keys
from spherec.data.features import Features
from spherec.data.interactions import Interactions
from spherec.device import keep_freed_memory, make_table
from spherec.embedding import EmbeddingTable, FeatureMap, FeatureTable, LiveGeometry, LiveVectors
from spherec.errors import ArgumentError, DataError, quote
from spherec.geometry import (
    DenseVectors,
    each_subspace,
    join_subspaces,
    measure_lengths,
    project,
    split_subspaces,
    squared_distance,
    to_vectors,
)
from spherec.kernels import GradientTask, backend, fuse
from spherec.losses import Triplets, covariance, spread_out
from spherec.sampling import SAMPLERS, Negatives
from spherec.training.config import Training
from spherec.training.crew import Crew, join

Pairs = tuple[Tensor, Tensor]
"""Users and items of pairs, (n,) each."""


class Run:
    """The state of training, and the step that changes it.

    Args:
        data: The pairs to learn from; of several processes, those of the own users.
        config: Settings of the run.
        initial: Vectors to begin from, by default those of the start among the settings.
        features: Features of the items of `data`, in the same order: items are placed by them, too.
        feature_map: A map of features to begin with, learned together with `initial`.
        crew: Who trains. By default this process on the device of `initial`, or on a GPU if there is one.
    """

    def __init__(
        self,
        data: Interactions,
        config: Training | None = None,
        initial: DenseVectors | None = None,
        features: Features | None = None,
        feature_map: FeatureMap | None = None,
        crew: Crew | None = None,
    ) -> None:
        if not data.n_pairs:
            raise DataError("there are no pairs to train on; give interactions with some")
        self.crew = crew = crew or join("auto" if initial is None else initial.device)
        self.config = config = (config or Training()).resolve(data)
        self.plan = config.plan(data.n_pairs)
        self.data, self.features = data, features
        self.n_items, self.n_pairs = data.n_items, data.n_pairs
        self._check()
        if initial is None:
            start = config.start.resolve(data, config.dim // config.subspaces, config.seed, crew.device)
            self.config = config = replace(config, start=start)
        keep_freed_memory()
        device = crew.device
        self.generator = crew.generator(config.seed)
        held = crew.hold(initial, data, config)
        rows, first_items = _start(held, config)  # (I + U, P, d), (I, D)
        self.sampler = config.sampler.build(data, device, initial_items=first_items)
        self.has_own_sampler = type(config.sampler) not in SAMPLERS.values()  # checked at each step, by shapes alone
        table = self._make_table(rows, feature_map)
        self.embedding = crew.join_rows(table, self)
        self.geometry = LiveGeometry(self.embedding, config.space, data.n_items, backend(device))
        self.vectors = LiveVectors(self.embedding, config.space, data.n_items, device)
        self.held = LiveVectors(table, config.space, held.n_items, device)  # the own ones
        self._weights = _weigh_users(data, config.balance, crew) if config.balance else None  # (U,)
        self._pair_weights = None if data.weights is None else PairWeights(data, device)
        weighted = self._weights is not None or self._pair_weights is not None
        task = GradientTask(data.n_items, config.constraint, config.sampler.shared, weighted, reach=config.reach)
        is_penalised = config.covariance or config.spread_out
        self._fused = None if is_penalised else fuse(config.loss, task, backend(device))
        # Sums over this epoch: the loss, pairs with something to learn from, places without a negative.
        self.sums = torch.zeros(3, dtype=torch.float64, device=device)

    def _make_table(self, rows: Tensor, known: FeatureMap | None) -> EmbeddingTable | FeatureTable:
        """Return the own rows with their moments, and note which items may be negatives."""
        config, features = self.config, self.features
        self._drawable: Tensor | None = None  # (I,) false for items that are placed by their features alone
        if features is None:
            return EmbeddingTable(rows, config.optimizer, constraint=config.constraint, planned=self.plan.steps)
        drawable = (self.data.users_per_item > 0) | ~features.known  # (I,)
        if not drawable.all():
            self._drawable = torch.tensor(drawable, device=rows.device)
        return _start_features(rows, self, known)

    def read_sums(self) -> list[float]:
        """Return the sums over this epoch, of all processes. It waits for the device."""
        return [float(one) for one in self.crew.add_up(self.sums).tolist()]

    def _check(self) -> None:
        """Raise an `ArgumentError` unless data, settings and features fit each other."""
        data, config, features = self.data, self.config, self.features
        self.crew.check_settings(config, has_features=features is not None)
        if features is not None and config.constraint != "sphere":
            raise ArgumentError(
                f"item features need constraint 'sphere', got {quote(config.constraint)}; leave one of them"
            )
        if features is not None and features.item_ids != data.item_ids:
            raise ArgumentError("features must be those of the items of data, in the same order; use features.align")

    def step(self, users: Tensor, positives: Tensor) -> int:
        """Learn from pairs of users (B,) and positive items (B,), and return the number of places for negatives.

        Nothing in here waits for the device.
        """
        batch = self.draw(users, positives)
        self.add_sums(self.learn(batch))
        return batch.negatives.valid.numel()

    def draw(self, users: Tensor, positives: Tensor, before_reading: Callable[[], None] = lambda: None) -> "DrawnBatch":
        """Draw everything that is random in a step; `before_reading` is called before a sampler looks at vectors."""
        with torch.no_grad():
            of_users = users + self.n_items  # (B,)
            geometry = replace(self.geometry, before_reading=before_reading)
            negatives = self.sampler.sample(users, positives, geometry, self.generator)  # (B | 1, N)
            if self.has_own_sampler:
                self._check_negatives(negatives, len(users))
            if self._drawable is not None:  # as negatives, items that nobody can have yet would be pushed away
                negatives = replace(negatives, valid=negatives.valid & self._drawable[negatives.items])
            weights = None if self._weights is None else self._weights[users]  # (B,)
            if self._pair_weights is not None:
                of_pairs = self._pair_weights.look_up(users, positives)  # (B,)
                weights = of_pairs if weights is None else weights * of_pairs
            return DrawnBatch(
                numbers=torch.cat((of_users, positives, negatives.items.reshape(-1))),
                negatives=negatives,
                weights=weights,
                dial=draw_dial(len(users), self.generator) if self.config.reach else None,
            )

    def learn(self, batch: "DrawnBatch") -> Tensor:
        """Move the rows of a batch by their gradient, and return what `sums` adds up (3, …)."""
        with torch.no_grad():
            n_users = len(batch.negatives.valid)
            rows = self.embedding.training_rows(batch.numbers, n_users)  # (P, 2 B + M, d)
            gradient, sums = self._gradient(rows, *batch[1:])  # (P, 2 B + M, d), (3, …)
            self.embedding.step(batch.numbers, gradient, n_users)
        return sums

    def add_sums(self, sums: Tensor) -> None:
        """Add the sums of a step (3, …) to those of the epoch."""
        self.sums += sums if sums.ndim == 1 else sums.flatten(1).sum(1)

    def copy_feature_map(self) -> FeatureMap | None:
        """Return the map of features as it is now, a copy; None without features."""
        if not isinstance(self.embedding, FeatureTable):
            return None
        rows = self.embedding.block(0, self.n_items)  # (I, P, d)
        return FeatureMap(self.embedding.weights(), measure_lengths(rows, reach=self.config.reach))

    def _gradient(
        self, rows: Tensor, negatives: Negatives, weights: Tensor | None, dial: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the gradient of rows (P, 2 B + M, d), and the mean over subspaces of what `sums` adds up (3, …)."""
        if self._fused is not None:
            return self._fused(rows, negatives.valid, negatives.log_q, weights, dial)
        return each_subspace(lambda part: self._by_autograd(part, negatives, weights, dial), rows)

    def _by_autograd(
        self, rows: Tensor, negatives: Negatives, weights: Tensor | None, dial: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the same for the rows (2 B + M, d) of one subspace, for any loss and with penalties."""
        with torch.enable_grad():
            triplets, loss, objective = self._objective(rows.requires_grad_(), negatives, weights, dial)
            (gradient,) = torch.autograd.grad(objective, rows)
        sums = loss.detach(), self.config.loss.active(triplets).sum(), (~negatives.valid).sum()
        return gradient, torch.stack([one.double() for one in sums])

    def _objective(
        self, rows: Tensor, negatives: Negatives, weights: Tensor | None, dial: Tensor | None
    ) -> tuple[Triplets, Tensor, Tensor]:
        """Return the distances of such rows, the loss, and the objective: the loss with its penalties."""
        n, directions = len(negatives.valid), rows if dial is None else rows[:, :-1]
        vectors = to_vectors(directions, self.config.constraint)  # (2 B + M, D)
        user, positive, negative = vectors[:n], vectors[n : 2 * n], vectors[2 * n :]  # (B, D), (B, D), (M, D)
        negative = negative.reshape(*negatives.items.shape, vectors.shape[1])  # (B | 1, N, D); B may be 0
        near, far = squared_distance(user, positive), squared_distance(user, negative)  # (B,), (B, N)
        log_q = negatives.log_q
        if dial is not None:  # a share λ of the reach counts, and a share λ of the bias of sampling is undone
            reach = 2 * self.config.loss.distance_scale * rows[:, -1]  # (2 B + M,)
            near = near - dial * reach[n : 2 * n]
            far = far - dial[:, None] * reach[2 * n :].reshape(negatives.items.shape)
            if log_q is not None:
                even = -math.log(self.n_items)
                log_q = even + dial[:, None] * (log_q - even)  # (B, N)
        triplets = Triplets(near, far, negatives.valid, self.n_items, log_q)
        losses = self.config.loss(triplets)  # (B,)
        if not isinstance(losses, Tensor) or losses.shape != near.shape or not losses.requires_grad:
            raise ArgumentError(
                f"{type(self.config.loss).__name__} must return a tensor of the loss of each pair, of shape ({n},), "
                f"that depends on the distances by torch functions, without a mean or sum, got {quote(losses)}"
            )
        objective = loss = (losses if weights is None else losses * weights).sum()
        if self.config.covariance:
            objective = objective + self.config.covariance * covariance(vectors[: 2 * n])
        if self.config.spread_out:
            objective = objective + self.config.spread_out * spread_out(positive, negative, negatives.valid)
        return triplets, loss, objective

    def _check_negatives(self, negatives: object, n: int) -> None:
        """Raise an `ArgumentError` if a sampler of the user's own returns anything but negatives for n pairs."""
        rows = 1 if self.config.sampler.shared else n
        if isinstance(negatives, Negatives) and negatives.items.ndim == 2:
            items, valid, log_q = negatives.items, negatives.valid, negatives.log_q
            is_whole = not items.is_floating_point() and len(items) == rows and valid.dtype == torch.bool
            if is_whole and valid.shape == (n, items.shape[1]) and (log_q is None or log_q.shape == items.shape):
                return
        raise ArgumentError(
            f"sample of {type(self.sampler).__name__} must return a spherec.sampling.Negatives with items of shape "
            f"({rows}, N), integers; valid of shape ({n}, N), bool; and log_q None or shaped as items"
        )


class DrawnBatch(NamedTuple):
    """B pairs with M negatives, ready to be learned from."""

    numbers: Tensor
    "(2 B + M,) of users, positives and negatives in the embedding."
    negatives: Negatives
    weights: Tensor | None
    "(B,) weights of pairs; None if all weigh the same."
    dial: Tensor | None
    "(B,) λ of pairs, drawn anew in each step, so that the vectors suit every place of the dial; None without reach."


class Batches:
    """The batches of an epoch, each a step of the run when it is asked for."""

    def __init__(self, run: Run, pairs: Pairs) -> None:
        self._run, self._pairs, self._batch_size = run, pairs, run.config.batch_size

    def begin(self, epoch: int, first: int) -> None:
        """Begin an epoch, counted from 0: pairs come in random order, and `first` of them are done already."""
        self._order, self._first = self._shuffle(len(self._pairs[0]), epoch), first

    def step(self) -> tuple[int, int]:
        """Learn from the next batch or several; return the number of pairs and of places for negatives."""
        batch = self._order[self._first : self._first + self._batch_size]  # (B,) the last one may be smaller
        self._first += len(batch)
        users, positives = (column[batch].long() for column in self._pairs)
        return len(batch), self._run.step(users, positives)

    def _shuffle(self, n: int, epoch: int, *partition: int) -> Tensor:
        """Return the order (n,) of n pairs in an epoch: of all, or of those of a partition."""
        seed, device = self._run.config.seed, self._pairs[0].device
        return rng.permutation(n, rng.torch_stream(seed, "shuffle", epoch, *partition, device=device))


def draw_dial(size: int, generator: torch.Generator) -> Tensor:
    """Draw λ for each of B pairs, (B,): every share of reach from 0 to 1 is as likely."""
    return rng.draw_rows(
        lambda rows: torch.empty(rows, device=generator.device).uniform_(generator=generator), size, generator
    )


def _start(initial: DenseVectors, config: Training) -> tuple[Tensor, Tensor]:
    """Return the first rows (I + U, P, d), with reach (I + U, P, d + 1), items first; and item vectors (I, D)."""
    rows = torch.cat((initial.item_table, initial.user_table))  # (I + U, D)
    parts, items = rows[:, None], to_vectors(initial.item_table, config.constraint)
    if config.subspaces > 1:
        parts = split_subspaces(rows, config.subspaces)  # (I + U, P, d)
        parts = to_vectors(project(parts, config.constraint), config.constraint)
        items = join_subspaces(parts[: initial.n_items])
    *counts, dim = parts.shape
    table = make_table((*counts, dim + config.reach), initial.device)
    table[..., :dim] = parts
    if config.reach and initial.item_reach is not None:
        table[: initial.n_items, :, -1] = initial.item_reach / config.loss.distance_scale
    return table, items


def _start_features(rows: Tensor, run: Run, known: FeatureMap | None) -> FeatureTable:
    """Return the embedding whose raw rows are those given (I + U, P, d), or if there is no map yet, begin near them."""
    train, config, features = run.data, run.config, run.features
    assert features is not None
    device, (_, subspaces, width) = rows.device, rows.shape
    numbers = torch.tensor(features.matrix, device=device)  # (I, F)
    has_features = torch.tensor(features.known, device=device)  # (I,)
    items = rows[: train.n_items]  # (I, P, d)
    if known is not None:
        weights = known.weights.to(device)
        items[..., : config.dim // subspaces] *= known.lengths.to(device)[..., None]
        given = known.place(numbers) * has_features[:, None, None]
        items -= given
    else:
        generator = rng.torch_stream(config.seed, "first feature weights")
        weights = torch.empty(subspaces, features.n_features + 1, width).normal_(generator=generator)
        weights = weights.to(device) / (config.dim // subspaces) ** 0.5  # [x, 1] W is about as long as [x, 1]
        if config.reach:
            weights[..., -1] = 0
        # An item that nobody has is where its features place it.
        items[has_features & torch.tensor(train.users_per_item == 0, device=device)] = 0
    extended = torch.cat((numbers, has_features[:, None]), 1)  # (I, F + 1)
    dropout = config.feature_dropout, config.seed
    return FeatureTable(rows, weights, extended, config.optimizer, dropout=dropout, planned=run.plan.steps)


class PairWeights:
    """Weights of pairs: ln(1 + w) for the weight w in the data, 1 on average over the pairs of each user."""

    def __init__(self, train: Interactions, device: torch.device) -> None:
        assert train.weights is not None
        users, weights = train.users, np.log1p(train.weights)  # (E,), (E,)
        mean = np.bincount(users, weights, train.n_users) / np.maximum(train.items_per_user, 1)  # (U,)
        self._n_items = train.n_items
        # (E,) ascending, because users and the items of each are
        self._keys = torch.tensor(pair_keys(users, train.indices, train.n_items), device=device)
        self._weights = torch.tensor(weights / mean[users], dtype=torch.float32, device=device)  # (E,)

    def look_up(self, users: Tensor, items: Tensor) -> Tensor:
        """Return the weights (B,) of pairs of users (B,) and items (B,)."""
        return self._weights[torch.searchsorted(self._keys, users * self._n_items + items)]


def _weigh_users(train: Interactions, balance: float, crew: Crew) -> Tensor:
    """Return the weight of each user's pairs (U,): n^−ρ for n items, 1 on average over pairs."""
    weights = np.maximum(train.items_per_user, 1.0) ** -balance  # (U,)
    total = torch.tensor(weights @ train.items_per_user, dtype=torch.float64, device=crew.device)
    total = crew.add_up(total, of=train)
    return torch.tensor(weights * train.n_pairs / float(total), dtype=torch.float32, device=crew.device)
