"""CiteULike's users.dat: adjacency lists of which each begins with the number of its items."""

from functools import partial

from spherec.data.read import adjacency

read_rows = partial(adjacency.read_rows, counted=True)
