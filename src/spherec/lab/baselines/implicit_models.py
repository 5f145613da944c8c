"""BPR and item kNN of the library implicit. The only file that imports it, and only when one of them is fit."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError, MissingPackageError, TrainingError
from spherec.evaluation import ItemLister
from spherec.evaluation.metrics import mark_hits
from spherec.lab.models import ComparedModel, FitContext
from spherec.lab.records import Settings
from spherec.ranking import Ranking

_MOST_NEIGHBOURS = 1 << 27  # of all items: implicit takes some 40 bytes for each
_LEAST = np.finfo(np.float32).min  # the score that implicit gives to what is left out


class _ImplicitModel(ComparedModel):
    """A model of implicit: on the CPU, with as many threads as torch may use, ranked by the library itself."""

    on_cpu = True
    packages = ("implicit",)

    def check(self, train: Interactions) -> None:  # noqa: ARG002
        try:
            import implicit  # noqa: F401
        except ImportError as error:
            raise MissingPackageError(
                f"{self.name} needs implicit; install it with: pip install implicit, or name other models"
            ) from error


class Bpr(_ImplicitModel):
    """Bayesian personalised ranking (Rendle and others, 2009). With several threads, runs differ slightly."""

    name = "bpr"
    epochs_in, costly = "iterations", "factors"
    search_space: Mapping[str, Sequence[Any]] = {
        "factors": (100, 50, 200, 400, 800),
        "learning_rate": (0.01, 0.001, 0.003, 0.03, 0.1),
        "regularization": (0.01, 0.00001, 0.0001, 0.001, 0.003, 0.03, 0.1),
        "iterations": (100, 200, 500, 1000),
    }

    def fit(self, train: Interactions, settings: Settings, context: FitContext) -> ItemLister:
        self.check(train)
        from implicit.bpr import BayesianPersonalizedRanking
        from implicit.recommender_base import ModelFitError

        options = {"use_gpu": False, "num_threads": torch.get_num_threads(), "random_state": context.seed}
        with _one_blas_thread():  # its constructor already looks
            model = BayesianPersonalizedRanking(**settings, **options)
            try:
                done = lambda epoch, *_: context.on_epoch(epoch + 1, settings["iterations"])  # noqa: E731
                model.fit(train.matrix, show_progress=False, callback=done)  # users x items, as we have them
            except ModelFitError as error:
                raise TrainingError(f"implicit cannot fit it with {dict(settings)}: {error}") from None
        return _Lister(model, train, len(model.item_factors))


class Knn(_ImplicitModel):
    """Items like those that a user has, by the K nearest neighbours of each."""

    name = "knn"
    search_space: Mapping[str, Sequence[Any]] = {
        "weighting": ("cosine", "tfidf", "bm25"),
        "neighbours": (20, 5, 10, 50, 100, 200, 500, 1000, 2000),
    }

    def fit(self, train: Interactions, settings: Settings, context: FitContext) -> ItemLister:  # noqa: ARG002
        self.check(train)
        from implicit.nearest_neighbours import BM25Recommender, CosineRecommender, TFIDFRecommender

        if train.n_items * settings["neighbours"] > _MOST_NEIGHBOURS:
            raise TrainingError(f"implicit has no room for {settings['neighbours']} neighbours of so many items")
        kinds = {"cosine": CosineRecommender, "tfidf": TFIDFRecommender, "bm25": BM25Recommender}
        model = kinds[settings["weighting"]](K=settings["neighbours"], num_threads=torch.get_num_threads())
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Method expects CSR input")  # from one of its parts to another
            model.fit(train.matrix, show_progress=False)
        return _Lister(model, train, train.n_items)


class _Lister:
    """Lists as the library makes them. kNN lists only items near to those of the user, so its lists may end early."""

    def __init__(self, model: Any, train: Interactions, n_items: int) -> None:
        self._model, self._train, self._n_items = model, train, n_items

    def top(self, users: NDArray[np.int64], k: int, *, without: Interactions | None = None) -> Ranking:
        """Return the k best items for user indices (B,), without those that the users have in the training data."""
        if without is not None and without is not self._train:
            raise ArgumentError("baselines of implicit can leave out only the interactions that they were fit on")
        k = min(k, self._n_items)  # past the last item it would name item 0 again and again
        own = self._train.matrix[users]
        with _one_blas_thread():
            items, scores = self._model.recommend(users, own, N=k, filter_already_liked_items=without is not None)
        if without is not None:  # kNN gives a score of 0 to what the user has, and lists it at the end
            scores = np.where(mark_hits(items, users, without), _LEAST, scores)
        scores = np.where((scores <= _LEAST) | (items < 0), -np.inf, scores).astype(np.float32)
        last = np.argsort(np.isneginf(scores), axis=1, kind="stable")  # -1 in the last places
        items, scores = np.take_along_axis(items, last, axis=1), np.take_along_axis(scores, last, axis=1)
        return Ranking(np.where(np.isneginf(scores), -1, items).astype(np.int64), scores)


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread: below the threads of the library, more make it many times slower."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        yield
