"""Random damage of bytes, texts and plain data, and values that no function expects; all from one generator."""

import json

import numpy as np

NUMBERS = [0, 1, -1, 2, 7, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
TEXTS = ["", *" \0\n\t\"',", "::", "=1+1", "\x1b]0;owned\x07", *"é\u202e\ufeff", "nan", "a" * 999]
VALUES = [None, True, False, 0, -1, 1, 2, 10**30, -(2**63), 0.5, -0.0, 1e308, 1e-308]
VALUES += [float("nan"), float("inf"), [], {}]


def mutate(rng, content):
    """The content with one to four random changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        content = rng.choice(_CHANGES)(rng, content) if content else rng.randbytes(rng.randrange(20))
    return content


def _flip(rng, content):
    place = rng.randrange(len(content))
    return content[:place] + bytes([content[place] ^ rng.randrange(1, 256)]) + content[place + 1 :]


def _cut(rng, content):
    return content[: rng.randrange(len(content))]


def _remove(rng, content):
    begin, length = rng.randrange(len(content)), rng.choice((1, 2, 8, 64, 512))
    return content[:begin] + content[begin + length :]


def _insert(rng, content):
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.randbytes(rng.choice((1, 2, 8, 64))) + content[place:]


def _blank(rng, content):
    begin, length = rng.randrange(len(content)), rng.choice((4, 16, 512))
    return (
        content[:begin]
        + bytes([rng.choice((0, 255, 32))]) * len(content[begin : begin + length])
        + content[begin + length :]
    )


def _repeat(rng, content):
    begin, length = rng.randrange(len(content)), rng.choice((8, 64, 4096))
    return content[: begin + length] + content[begin : begin + length] + content[begin + length :]


def _number(rng, content):
    size = rng.choice((1, 2, 4, 8))
    number = rng.choice(NUMBERS) % 256**size
    place = rng.randrange(len(content))
    return (content[:place] + number.to_bytes(size, rng.choice(("little", "big"))) + content[place + size :])[
        : len(content)
    ]


def _text(rng, content):
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.choice(TEXTS).encode() + content[place:]


_CHANGES = (_flip, _flip, _cut, _remove, _insert, _blank, _repeat, _number, _number, _text)


def odd_value(rng, depth=0):
    """A value that plain data may hold, such as JSON or TOML: often far outside any range."""
    kind = rng.randrange(6)
    if kind == 0:
        return rng.choice(NUMBERS) * rng.choice((1, -1))
    if kind == 1:
        return rng.choice(TEXTS)
    if kind == 2 and depth < 3:
        return [odd_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 3 and depth < 3:
        return {rng.choice(("kind", "epoch", "x", "")): odd_value(rng, depth + 1) for _ in range(rng.randrange(3))}
    return rng.choice(VALUES)


def mutate_tree(rng, tree):
    """A copy of plain data with one to three values changed, removed or renamed."""
    tree = json.loads(json.dumps(tree))
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(_places(tree))
        if not places:
            return odd_value(rng)
        table, key = rng.choice(places)
        change = rng.randrange(4)
        if change == 0:
            del table[key]
        elif change == 1 and isinstance(table, dict):
            table[rng.choice(TEXTS)] = table.pop(key)
        else:
            table[key] = odd_value(rng)
    return tree


def _places(tree):
    for key in tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ():
        yield tree, key
        yield from _places(tree[key])


def odd_argument(rng, known):
    """An argument of a Python call: one of `known`, plain data, or an object of another kind."""
    objects = [object(), b"x", (1, 2), {1, 2}, np.int64(3), np.float32(0.5), np.array([1, 2]), np.array([[1.0]])]
    objects += [np.nan, range(3), iter([1]), type, 10**400, complex(1, 1), np.array(["a"]), np.array([None])]
    objects += [lambda: 1, "\ud800"]
    kind = rng.randrange(4)
    if kind == 0:
        return odd_value(rng)
    return rng.choice(objects) if kind == 1 else rng.choice(known)
