"""Lists for everybody on Ray Data: a callable class for `map_batches`, of which each worker makes one.

`docs/scaling.md` has the whole call, with the number of workers and what each may take.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from os import PathLike
from typing import Any, Unpack

import torch

from spherec.data.ids import Ids, list_ids
from spherec.errors import ArgumentError, quote, refuse_unknown
from spherec.ranking.index_file import IndexFiles
from spherec.recommender import CML
from spherec.recommender.results import answer_in_blocks, to_table
from spherec.recommender.trained_model import ListOptions


class Lists:
    """The lists of `recommend` for batches of users, as tables with the columns user, rank, item, name and score.

    The model is mapped from its file, so the workers of a machine share one copy.

    Args:
        model: The model file, at a path that all machines reach.
        k: Length of each list.
        user: Column of the user ids, which are of the type that they had in training.
        index: An index file to answer through, or those of all parts of the items; True: the index next to the model.
        threads: Threads that a worker computes in; give `map_batches` the same number as `num_cpus`.
        options: `only`, `exclude`, `exclude_seen`, `mainstream` and `unknown`, as in `recommend`.
    """

    def __init__(
        self,
        model: str | PathLike[str],
        k: int = 10,
        *,
        user: str = "user",
        index: bool | IndexFiles = False,
        threads: int = 1,
        **options: Unpack[ListOptions],
    ) -> None:
        refuse_unknown("Lists", options, ListOptions)
        filters = options.get("only"), options.get("exclude")  # either may be an iterator
        options["only"], options["exclude"] = (None if ids is None else list_ids(ids) for ids in filters)
        self._model = CML.load(model, index=index, mmap=True, device="cpu")
        self._recommend = partial(self._model.recommend, k=k, **options)
        self._user, self._threads = user, threads

    def __call__(self, batch: Mapping[str, Ids]) -> Iterator[Any]:
        """Yield the lists of a batch of users as tables of pyarrow, some users at a time."""
        if self._user not in batch:
            raise ArgumentError(f"the users have no column {quote(self._user)}; name theirs with user=…")
        torch.set_num_threads(self._threads)  # here, because torch counts for each thread
        for block in answer_in_blocks(self._recommend, batch[self._user]):
            yield to_table(block, self._model.data).to_arrow()
