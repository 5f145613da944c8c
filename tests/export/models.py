"""Small models to export, and a reader of the scripts that psql runs."""

import re
from dataclasses import replace

import numpy as np
import torch
from hypothesis import strategies as st

from spherec.data.interactions import Interactions
from spherec.geometry import DenseVectors
from tests.sampling.checks import directions
from tests.strategies import distinct_ids

ODD = ["", "\\.", "\\N", "a\tb", "a\nb", "a\r\nb", "a\\tb", "\\", "'quoted' \"twice\"", "é — 漢字 🦉", "\x85\u2028\x1c"]
"""Texts with which careless writers stumble."""


def model(user_ids, item_ids, names=None, *, dim=5, constraint="sphere", reach=None, mainstream=1.0):
    """Vectors with awkward numbers, and whose they are; `reach` has (I, P) numbers."""
    users, items = directions(len(user_ids), dim, 1), directions(len(item_ids), dim, 2)
    if len(items) > 1:
        items[0] = torch.tensor([-0.0, 1e-45, 1 / 3, -1.1754944e-38, 0.99999994][:dim])
    data = Interactions.from_matrix(np.ones((len(users), len(items))), user_ids=user_ids, item_ids=item_ids)
    item_reach = None if reach is None else torch.as_tensor(reach, dtype=torch.float32)
    vectors = DenseVectors(users, items, constraint, item_reach, mainstream)
    return vectors, replace(data, item_names=None if names is None else tuple(names))


@st.composite
def models(draw):
    """Ids of every kind that any format can hold, names with anything in them."""
    text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")) | st.sampled_from(ODD)
    users, items = (
        draw(
            distinct_ids(min_size=1).filter(
                lambda ids: ids and not re.search("[\0\ud800-\udfff]", "".join(map(str, ids)))
            )
        )
        for _ in range(2)
    )
    if draw(st.booleans()):
        items = draw(st.lists(text, unique=True, min_size=1, max_size=8))
    names = draw(st.none() | st.lists(st.none() | text, min_size=len(items), max_size=len(items)))
    return model(users, items, names, constraint=draw(st.sampled_from(["sphere", "ball"])))


def expected_ids(ids):
    """What the docs promise of each id."""
    ids = list(ids)
    return ids if all(isinstance(one, int) and one < 2**63 for one in ids) else list(map(str, ids))


def read_copy(script):
    """{table: (column names, rows of str or None)} of a script, by the rules of COPY's text format."""
    tables = {}
    lines = iter(script.split(b"\n"))
    for line in lines:
        if head := re.fullmatch(rb"COPY (\w+) \(([\w, ]+)\) FROM STDIN;", line):
            rows = []
            for data in iter(lambda: next(lines), b"\\."):
                assert b"\r" not in data, "psql would take it for the end of a line"
                rows.append([_unescape(field) for field in data.split(b"\t")])
            tables[head[1].decode()] = head[2].decode().split(", "), rows
    return tables


def _unescape(field):
    """A field as the server reads it; no octal and no hexadecimal numbers."""
    letters = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
    if field == b"\\N":
        return None
    return re.sub(rb"\\(.)", lambda found: letters.get(found[1], found[1]), field, flags=re.DOTALL).decode()
