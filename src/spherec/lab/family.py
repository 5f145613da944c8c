"""The protocol by which papers of the CML family compare, beside ours: its split, its metrics, its published figures.

Bao and others, The Minority Matters (NeurIPS 2022), tables 2 and 5: Steam-200k, MovieLens-1M (at least 4 stars) and
CiteULike-T. Each user's items are dealt into 60 % for training, 20 % to choose settings on and 20 % to test on, and
models are not fit again on more. Only training items are left out of a ranking. docs/family.md has the equations.
"""

import csv
import gzip
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from spherec import rng
from spherec.data.input_files import reading_file
from spherec.data.interactions import Interactions
from spherec.data.splits import Fold
from spherec.errors import ArgumentError
from spherec.evaluation import ItemLister
from spherec.evaluation.metrics import Values, mean_of
from spherec.evaluation.scores import PerUser, Scores
from spherec.geometry import DenseVectors
from spherec.lab.baselines.scored_ranker import ScoredRanker
from spherec.lab.comparison import Comparison, ComparisonPlan
from spherec.lab.models import ComparedModel, OurModel
from spherec.lab.records import Result
from spherec.lab.registry import BASELINES, find_models
from spherec.lab.tables import MeanStd, TableRow, chosen_settings, describe_environments, summarize, to_markdown
from spherec.ranking.ranker import LeftOut, refuse_nan, split_blocks
from spherec.training.config import PRESETS

FAMILY_MODELS = ("two-stage-100", "accurate-100", *PRESETS, "ease", "ials")
"""The models by default: presets as they come, and with the 100 dimensions of the papers; two baselines."""

_FEWEST = 5  # items of a user who takes part
_BLOCK = 1 << 22  # scores held at once: 16 MB of float32


@dataclass(frozen=True)
class Ranks:
    """The ranks of B users' test items among all I items without their training items."""

    users: NDArray[np.int64]
    "(B,) user indices."
    counts: NDArray[np.int64]
    "(B,) number of test items, at least 1."
    rows: NDArray[np.int64]
    "(E,) position in `users` of each test pair, ascending."
    ranks: NDArray[np.int64]
    "(E,) rank of each test item, from 1, ascending in each row."

    def total(self, values: NDArray[Any]) -> Values:
        """Return the sum (B,) of values of pairs (E,) over the pairs of each user."""
        return np.bincount(self.rows, values, minlength=len(self.users)).astype(np.float64)

    @property
    def hits(self) -> NDArray[np.int64]:
        """(E,) number of the user's test items down to this one."""
        return np.arange(len(self.rows)) - np.repeat(np.cumsum(self.counts) - self.counts, self.counts) + 1


@dataclass(frozen=True)
class FamilyMetric:
    """A metric of the family; users with fewer than `fewest` test items do not count."""

    name: str
    label: str
    fewest: int
    formula: Callable[[Ranks], Values]
    percent: bool = True

    def __call__(self, lists: Any) -> Values:
        """Return the values (B,) for `Ranks`, NaN for users who do not count."""
        return np.where(lists.counts >= self.fewest, self.formula(lists), np.nan)


def _metrics_at(k: int) -> tuple[FamilyMetric, ...]:
    def gain(ranks: Ranks) -> Values:
        return ranks.total((ranks.ranks <= k) / np.log2(ranks.ranks + 1.0))

    ideal = (1 / np.log2(np.arange(2, k + 2))).sum()  # always of k items, because nobody has fewer
    return (
        FamilyMetric(f"p@{k}", f"P@{k}", k, lambda ranks: ranks.total(ranks.ranks <= k) / k),
        FamilyMetric(f"r@{k}", f"R@{k}", k, lambda ranks: ranks.total(ranks.ranks <= k) / ranks.counts),
        FamilyMetric(f"ndcg@{k}", f"NDCG@{k}", k, lambda ranks: gain(ranks) / ideal),
    )


FAMILY_METRICS = (
    *_metrics_at(3),
    *_metrics_at(5),
    FamilyMetric("map", "MAP", 3, lambda ranks: ranks.total(ranks.hits / ranks.ranks) / ranks.counts),
    FamilyMetric("mrr", "MRR", 3, lambda ranks: ranks.total((ranks.hits == 1) / ranks.ranks)),
)
"""The columns of the published tables. MAP and MRR look at the whole ranking."""


def rank_test_items(model: DenseVectors | ItemLister, train: Interactions, test: Interactions) -> Ranks:
    """Rank the test items of each user by counting the items before them, among equal scores the lower indices."""
    score, users = _make_scorer(model, train), np.flatnonzero(test.items_per_user)
    parts = [np.zeros(0, dtype=np.int64)]
    for block in split_blocks(len(users), max(_BLOCK // max(train.n_items, 1), 1)):
        scores = score(users[block])  # (b, I)
        refuse_nan(scores.cpu().numpy())
        own, held_out = (LeftOut.of_users(users[block], part) for part in (train, test))
        scores[tuple(torch.as_tensor(index, device=scores.device) for index in (own.queries, own.items))] = -torch.inf
        parts.append(_count_ranks(scores, held_out.queries, held_out.items))
    counts, ranks = test.items_per_user[users], np.concatenate(parts)
    rows = np.repeat(np.arange(len(users)), counts)
    return Ranks(users, counts, rows, ranks[np.lexsort((ranks, rows))])


def _make_scorer(model: DenseVectors | ItemLister, train: Interactions) -> Callable[[NDArray[np.int64]], Tensor]:
    """Return a function of user indices (b,) that returns new scores (b, I), by which the model ranks."""
    if isinstance(model, ScoredRanker):
        return model.score
    if not isinstance(model, DenseVectors):
        return partial(_score_by_rank, model, train)
    table, items = model.user_table, model.item_table.double()  # rounded once, as an exact ranker does
    shift = items.square().sum(1) / -2 if model.constraint == "ball" else items.new_zeros(len(items))  # (I,)
    if model.reach is not None:
        shift += model.mainstream * model.reach
    return lambda users: (table[torch.as_tensor(users, device=table.device)].double() @ items.T + shift).float()


def _score_by_rank(lister: ItemLister, train: Interactions, users: NDArray[np.int64]) -> Tensor:
    """Return scores (b, I) that fall along the lists; items that a list does not name come last."""
    items = lister.top(users, train.n_items, without=train).items  # (b, K)
    scores = np.full((len(users), train.n_items + 1), -train.n_items - 1.0, dtype=np.float32)  # the last is for -1
    np.put_along_axis(scores, items, -np.arange(items.shape[1], dtype=np.float32)[None], axis=1)
    return torch.from_numpy(scores[:, :-1].copy())


def _count_ranks(scores: Tensor, rows: NDArray[np.int64], items: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rank (p,) of each of these items in its row of scores (b, I)."""
    every, ranks = torch.arange(scores.shape[1], device=scores.device), np.empty(len(rows), dtype=np.int64)
    for some in split_blocks(len(rows), max(_BLOCK // max(scores.shape[1], 1), 1)):
        row, item = (torch.as_tensor(index[some], device=scores.device) for index in (rows, items))
        others, own = scores[row], scores[row, item][:, None]  # (p, I), (p, 1)
        before = (others > own) | ((others == own) & (every < item[:, None]))  # (p, I)
        ranks[some] = 1 + before.sum(1).cpu().numpy()
    return ranks


def split_family(path: str | PathLike[str]) -> tuple[Interactions, Interactions, Interactions]:
    """Return the training, validation and test part of a file with a line for each user: count, item ids.

    Pair by pair it is the split of the papers' code. Users with fewer than 5 items are left out, and the catalogue is
    all items from 0 to the largest id.
    """
    remedy = "each line must be a user's number of items and as many ids, all of them whole numbers >= 0"
    with reading_file(path, remedy) as found:
        with gzip.open(found, "rt") if found.suffix == ".gz" else open(found, encoding="utf-8") as file:
            rows = [list(map(int, line.split())) for line in file]
        for number, row in enumerate(rows, start=1):
            if not row or row[0] != len(row) - 1 or min(row) < 0:
                raise ValueError(f"line {number} is not a count and as many items")
    users = [sorted(set(items)) for count, *items in rows if count >= _FEWEST]
    shuffler = rng.legacy(1234)
    parts: tuple[list[tuple[int, int]], ...] = ([], [], [])
    for user, items in enumerate(users):
        if len(items) >= _FEWEST:
            shuffler.shuffle(items)
            first, second = len(items) * 3 // 5, len(items) * 3 // 5 + len(items) // 5
            for part, some in zip(parts, (items[:first], items[first:second], items[second:]), strict=True):
                part += [(user, item) for item in some]
    if not parts[0]:
        raise ArgumentError(f"{path} has no user with {_FEWEST} items; name a file of a larger data set")
    shape = len(users), max(map(max, users)) + 1
    matrices = (sparse.csr_array((np.ones(len(part)), tuple(np.array(part).T)), shape=shape) for part in parts)
    train, validation, test = map(Interactions.from_matrix, matrices)
    return train, validation, test


def find_family_sets(folder: Path) -> dict[str, Path]:
    """Return the files NAME.users.dat or NAME.users.dat.gz in a folder by NAME."""
    files = {path.name.split(".users.dat")[0]: path for path in sorted(folder.glob("*.users.dat*"))}
    if not files:
        names = ", ".join(f"{name}.users.dat" for name in published_rows())
        raise ArgumentError(f"{folder} must be a folder with files such as {names}, or these with .gz")
    return files


def find_family_models(names: Iterable[str]) -> tuple[ComparedModel, ...]:
    """Return models by name, each once: presets as they come or with other dimensions (accurate-100), baselines."""
    return tuple({name: _find_model(name) for name in names}.values())


def _find_model(name: str) -> ComparedModel:
    preset, _, dim = name.rpartition("-")
    if preset in PRESETS and dim.isdecimal():
        return OurModel(name, PRESETS[preset].training.change({"dim": int(dim)}), {})
    return OurModel(name, PRESETS[name].training, {}) if name in PRESETS else find_models([name])[0]


def published_rows() -> dict[str, list[TableRow]]:
    """Return the published rows of each data set."""
    text = (resources.files("spherec.lab") / "family.csv").read_text(encoding="utf-8")
    rows: dict[str, list[TableRow]] = {}
    for line in csv.DictReader(text.splitlines()):
        scores = {metric.name: MeanStd(float(line[metric.name]), np.nan) for metric in FAMILY_METRICS}
        rows.setdefault(line["dataset"], []).append(TableRow(line["model"], 1, scores, is_ours=False))
    return rows


class FamilyComparison(Comparison):
    """A comparison by the protocol on one of its files: one split, settings chosen on the validation part."""

    study = "cml-family"

    def __init__(self, models: Iterable[str], path: Path, folder: Path, *, workers: int | None = None) -> None:
        train, validation, test = split_family(path)
        plan = ComparisonPlan(find_family_models(models), k=5, validation=0.2, workers=workers)
        super().__init__(plan, train, folder, test=test)
        self.user_values, self.others = None, find_family_models([*FAMILY_MODELS, *BASELINES])
        self._inner = cache(lambda fold: Fold(self.parts[fold].train, validation))

    def _score(self, fitted: DenseVectors | ItemLister, part: Fold) -> Scores:
        ranks = rank_test_items(fitted, part.train, part.test)
        values = {metric.name: metric(ranks) for metric in FAMILY_METRICS}
        means = {name: mean_of(each) for name, each in values.items()}
        return Scores(part.train.n_items, PerUser(ranks.users, values), means, part.test.n_users - len(ranks.users))


FAMILY_LEGEND = """\
# The benchmark of the CML family

In percent. The first rows are published (Bao and others, The Minority Matters, NeurIPS 2022, tables 2 and 5); the
others are measured here by the same protocol. "Above" counts the figures that exceed those of every published row.
Settings were chosen by NDCG@5 on the validation part, and no model was fit again on more."""


def describe_family(name: str, results: Sequence[Result]) -> str:
    """Return the table of a data set, the published rows above ours, the settings chosen and where they were made."""
    published, ours, rows = published_rows().get(name, []), summarize(results, FAMILY_METRICS), []
    for row in (*published, *ours):
        above = [all(row[each].mean > other[each].mean for other in published) for each in row.scores].count(True)
        last = f"{above} of {len(row.scores)}" if published and row in ours else ""
        rows.append([row.model, *(str(row[metric.name]) for metric in FAMILY_METRICS), last])
    table = to_markdown(["model", *(metric.label for metric in FAMILY_METRICS), "above"], rows)
    return "\n\n".join([f"## {name}", table, chosen_settings(ours, results), f"{describe_environments(results)}."])
