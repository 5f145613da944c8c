"""The crew of several processes: what one alone does trivially, they do together.

They are those that torchrun has started, or of a group that the caller has made with `torch.distributed`. All of them
call each method together. One process of a group of its own draws and learns as several would.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherec.artifact import Artifact
from spherec.data.container import Arrays
from spherec.data.interactions import Interactions
from spherec.distributed.checkpoint import read_parts, write_parts
from spherec.distributed.group import ProcessGroup, join_group
from spherec.distributed.held import HeldPairs, PartitionedBatches, SharedBatches, hold
from spherec.distributed.partitions import PartitionedInteractions
from spherec.distributed.shards import save_shards
from spherec.distributed.table import ShardedTable, ShareGenerator, draw_held, gather_vectors, hold_vectors
from spherec.embedding import Embedding, EmbeddingTable
from spherec.errors import ArgumentError
from spherec.geometry import DenseVectors, Vectors
from spherec.ranking import ExactRanker, Ranking
from spherec.sampling import TwoStage
from spherec.start import Random
from spherec.training.config import Training
from spherec.training.crew import Crew
from spherec.training.step import Batches, Run


class ProcessCrew(Crew):
    """The processes of a group."""

    has_shares = True

    def __init__(self, group: ProcessGroup) -> None:
        super().__init__(group.device)
        self.group, self.size, self.is_first = group, group.size, group.rank == 0

    def agree(self, *flags: bool) -> Sequence[bool]:
        return self.group.agree(*flags)

    def check_alike(self, facts: Mapping[str, Any]) -> None:
        first, *others = self.group.collect_objects(dict(facts))
        names = [name for name in first if any(other.get(name) != first[name] for other in others)]
        names += sorted({name for other in others for name in other if name not in first})
        if names:
            raise ArgumentError(
                f"the {self.size} processes were not started alike: {', '.join(names)} are not the same in all of "
                "them; give all processes the same arguments and data"
            )

    def add_up(self, numbers: Tensor, *, of: Interactions | None = None) -> Tensor:
        return numbers if of is not None and _find_share(of) is None else self.group.add_up(numbers)

    def gather(self, values: Any) -> Any:
        """Return the sum of the values of all users as one of as many equal ones, of whom each process has its own."""
        if np.ndim(values) != 1:
            raise ArgumentError(
                "this metric has no values of single users, which processes could add up; choose another, or validate "
                "in one process"
            )
        values = np.asarray(values)[~np.isnan(values)]
        sums = torch.tensor([values.sum(), len(values)], dtype=torch.float64, device=self.device)
        total, count = self.group.add_up(sums).tolist()
        return total / count if count else float("nan")

    def take(self, data: Any, **columns: Any) -> Interactions:
        """Return the pairs that this process learns from: of a partitioned data set, those of its own users."""
        parts = data if isinstance(data, PartitionedInteractions) else None
        self.check_alike({"data": parts and (parts.n_users, parts.n_items, parts.totals.checksum)})  # of files later
        if parts:
            return cast("Interactions", hold(parts, self.group))  # it has all that training asks for
        return super().take(data, **columns)

    def whole(self, data: Interactions) -> Interactions:
        held = _find_share(data)
        return data if held is None else held.source.read()

    def check_settings(self, config: Training, *, has_features: bool) -> None:
        sampler, problem = config.sampler, None
        if has_features:
            problem = "all items learn one map of their features; leave item_features out"
        elif config.covariance or config.spread_out:
            problem = "covariance and spread_out look at all vectors of a batch; set both to 0"
        elif not isinstance(config.start, Random):
            problem = "the first vectors in closed form need all pairs; set start={'kind': 'Random'}"
        elif isinstance(sampler, TwoStage) and sampler.vectors == "frozen":
            problem = "frozen vectors of the sampler are not shared; use vectors='live'"
        elif not sampler.draws_alike:
            problem = f"the sampler {type(sampler).__name__} does not state that it draws alike (draws_alike = True)"
        if problem is not None and self.size > 1:
            raise ArgumentError(
                f"several processes cannot train with these settings: {problem}, or train in one process"
            )

    def generator(self, seed: int) -> torch.Generator:
        """Return a generator that draws for whole batches."""
        plain = super().generator(seed)
        if self.size == 1 and self.device.type == "cuda":
            return plain  # no other kind can be recorded
        shared = ShareGenerator(self.device)
        shared.set_state(plain.get_state())
        return shared

    def hold(self, initial: DenseVectors | None, data: Interactions, config: Training) -> DenseVectors:
        held = draw_held(data, config, self.group) if initial is None else hold_vectors(initial, self.group)
        return held.to(self.device)

    def join_rows(self, table: EmbeddingTable, run: Run) -> Embedding:
        if self.size == 1 or not isinstance(run.generator, ShareGenerator):
            return table
        return ShardedTable(table, run.n_items + run.data.n_users, self.group, run.generator, run.config)

    def batches(self, run: Run) -> Batches | None:
        data, held = run.data, _find_share(run.data)
        if held is not None:
            return PartitionedBatches(run, held)
        if self.size == 1:
            return None
        users, items = (torch.tensor(column, device=self.device) for column in (data.users, data.indices))  # (E,)
        return SharedBatches(run, (users, items), self.group)

    def write_checkpoint(self, path: Path, collect: Callable[[], Arrays], facts: Mapping[str, Any]) -> None:
        write_parts(path, self.group, collect, facts)

    def read_checkpoint(self, path: Path, run: Run) -> tuple[Arrays, dict[str, Any]]:
        return read_parts(path, self.group, run)

    def gather_vectors(self, vectors: DenseVectors, data: Interactions) -> DenseVectors:
        return gather_vectors(vectors, data, self.group)

    def save_share(self, path: Path, make: Callable[[Interactions], Artifact], data: Interactions) -> Artifact:
        """Write what this process holds into a shard of the model; return it, as it is read again."""
        held = _find_share(data)
        add_ids = None if held is None else partial(held.source.with_ids, held.own)
        save_shards(path, self.group, partial(make, data if held is None else held.own), add_ids)
        own = self.group.rank, self.size
        return Artifact.load(path, mmap=True, users=own, items=own)

    def choose_share(self, data: Interactions, share: float, seed: int) -> NDArray[np.bool_]:
        held = _find_share(data)
        return super().choose_share(data, share, seed) if held is None else held.choose_share(share, seed)

    def rank(
        self, vectors: Vectors, users: NDArray[np.int64], k: int, without: Interactions
    ) -> tuple[NDArray[np.int64], Ranking]:
        """Return the users of this process, and their k nearest items, by a copy of all item vectors."""
        users = users[(users + vectors.n_items) % self.size == self.group.rank]
        queries = vectors.users(torch.as_tensor(users, device=vectors.device)).cpu().numpy()  # (b, D)
        items, first = torch.empty(vectors.n_items, vectors.dim, device=vectors.device), 0  # (I, D)
        for block in vectors.item_blocks():  # (b, D)
            items[first : first + len(block)] = block
            first += len(block)
        reach = None if vectors.reach is None else vectors.reach[:, None]  # (I, 1)
        copy = DenseVectors(items[:0], items, vectors.constraint, reach, vectors.mainstream)
        return users, ExactRanker(copy).top_of(queries, k, without=[without.items_of(user) for user in users.tolist()])

    def list_items(
        self, users: NDArray[np.int64], ask: Callable[[NDArray[np.int64]], NDArray[np.int64]]
    ) -> NDArray[np.int64]:
        """Return the lists (B, K) of all users; each process asks for those of every n-th."""
        if self.size > len(users):
            raise ArgumentError(f"{self.size} processes cannot share {len(users)} users with test pairs; start fewer")
        lists, n_users = ask(users[self.group.rank :: self.size]), len(users)
        whole = np.empty((n_users, lists.shape[1]), np.int64)
        rows = torch.full((-(-n_users // self.size), lists.shape[1]), -1)  # (⌈B / n⌉, K)
        rows[: len(lists)] = torch.from_numpy(lists)
        for rank, part in enumerate(self.group.collect(rows.to(self.device), everywhere=True)):
            own = whole[rank :: self.size]
            own[:] = part[: len(own)].cpu().numpy()
        return whole


def _find_share(data: object) -> HeldPairs | None:
    """Return data if it is the part of this process."""
    return data if isinstance(data, HeldPairs) else None


def join_processes(device: torch.device) -> ProcessCrew:
    """Return the crew of the group that this process belongs to, or of this process alone."""
    return ProcessCrew(join_group(device))
