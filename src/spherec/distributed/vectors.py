"""The vectors of a run of several processes: which each holds, and how they come together."""

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

from spherec import rng
from spherec.data.interactions import Interactions
from spherec.distributed.group import ProcessGroup
from spherec.distributed.table import count_held, interleave
from spherec.errors import FailedProcessError, NotEnoughMemoryError
from spherec.geometry import DenseVectors, unit
from spherec.training.config import Training

_BLOCK = 1 << 16  # vectors drawn or sent at once; a multiple of 16, see `_draw_rows`


def hold_vectors(vectors: DenseVectors, group: ProcessGroup) -> DenseVectors:
    """Return the vectors that this process holds."""
    n, (first_user, first_item) = group.size, _firsts(vectors.n_items, group)
    reach = vectors.item_reach
    return DenseVectors(
        vectors.user_table[first_user::n].clone(),
        vectors.item_table[first_item::n].clone(),
        vectors.constraint,
        None if reach is None else reach[first_item::n].clone(),
        vectors.mainstream,
    )


def draw_held(data: Interactions, config: Training, group: ProcessGroup) -> DenseVectors:
    """Return those of the random first vectors that this process holds, the same as in a run of one process.

    All are drawn, users before items and a block at a time, and few are kept.
    """
    n, count = group.size, data.n_users + data.n_items
    first_user, first_item = _firsts(data.n_items, group)
    held = [np.arange(first_user, data.n_users, n), np.arange(data.n_users + first_item, count, n)]  # places
    tables = [torch.empty(len(places), config.dim) for places in held]
    begin = 0
    for rows in _draw_rows(count, config.dim, rng.torch_stream(config.seed, "initial vectors")):
        end = begin + len(rows)
        for table, places in zip(tables, held, strict=True):
            low, high = np.searchsorted(places, (begin, end))
            table[low:high] = unit(rows[places[low:high] - begin])
        begin = end
    return DenseVectors(*tables, config.constraint)


def gather_vectors(held: DenseVectors, data: Interactions, group: ProcessGroup) -> DenseVectors:
    """Return all vectors in process 0, in its main memory; in the others, those that they hold."""
    n_items = data.n_items
    if group.size == 1:
        return held
    tables = {"users": (held.user_table, n_items, data.n_users), "items": (held.item_table, 0, n_items)}
    if held.item_reach is not None:
        tables["reach"] = held.item_reach, 0, n_items
    wholes = None
    with suppress(MemoryError, RuntimeError):  # how torch says that memory is short
        wholes = {
            name: torch.empty(0 if group.rank else count, *rows.shape[1:]) for name, (rows, _, count) in tables.items()
        }
    if group.agree(wholes is None)[0] or wholes is None:
        raise (NotEnoughMemoryError if wholes is None else FailedProcessError)(
            "process 0 has no memory for the whole model; write shards (--shards, RunFiles(…, in_shards=True))"
        )
    for name, (rows, first, count) in tables.items():
        _gather(rows, wholes[name], first, first + count, group)
    if group.rank:
        return held
    return DenseVectors(wholes["users"], wholes["items"], held.constraint, wholes.get("reach"), held.mainstream)


def _gather(rows: Tensor, whole: Tensor, first: int, past: int, group: ProcessGroup) -> None:
    """Write the rows (past − first, …) of the numbers from `first` on into `whole` in process 0."""
    rank, n = group.rank, group.size
    base = count_held(first, rank, n)
    for begin in range(first, past, _BLOCK):
        end = min(begin + _BLOCK, past)
        part = rows[count_held(begin, rank, n) - base : count_held(end, rank, n) - base]
        block = interleave(part, begin, end, group, everywhere=False)
        whole[begin - first : begin - first + len(block)] = block.cpu()


def _firsts(n_items: int, group: ProcessGroup) -> tuple[int, int]:
    """Return the first user and the first item that this process holds; then it holds every n-th."""
    return (group.rank - n_items) % group.size, group.rank


def _draw_rows(count: int, dim: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield normal rows (b, D), the same as drawn all at once.

    torch draws 16 numbers at a time, and the last ones anew if fewer are left: so all blocks but the last are multiples
    of 16, and the last is not the smallest.
    """
    begin = 0
    while begin < count:
        end = begin + _BLOCK if begin + 2 * _BLOCK <= count else count
        yield torch.empty(end - begin, dim).normal_(generator=generator)
        begin = end
