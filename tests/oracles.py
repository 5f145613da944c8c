"""Slow, plain implementations that say what is right, written from the specification and never from `src`.

Nothing here imports `spherec`: data sets are read through their documented attributes only.
"""

from collections import Counter, defaultdict
from fractions import Fraction
from statistics import mean, median

# --- Ids -------------------------------------------------------------------------------------------------------------


def typed(one):
    """A value beside its type, all the way down, so that 1, 1.0 and True compare as different."""
    if isinstance(one, tuple | list):
        return type(one), [typed(part) for part in one]
    if isinstance(one, frozenset):
        return type(one), frozenset((type(part), part) for part in one)
    return type(one), one


# --- Interactions ----------------------------------------------------------------------------------------------------


def pairs_of(data):
    """{(user id, item id): time or None} of interactions."""
    pairs = {}
    for user, user_id in enumerate(data.user_ids):
        for at in range(data.indptr[user], data.indptr[user + 1]):
            pair = user_id, data.item_ids[int(data.indices[at])]
            assert pair not in pairs, f"{pair} comes twice"
            pairs[pair] = None if data.times is None else data.times[at].item()
    return pairs


def baskets(pairs):
    """{user: set of items}."""
    held = defaultdict(set)
    for user, item in pairs:
        held[user].add(item)
    return dict(held)


def statistics(pairs):
    """The numbers of `spherec.data.statistics`, by name; spreads as (smallest, median, mean, largest)."""
    per_user = sorted(Counter(user for user, _ in pairs).values())
    per_item = sorted(Counter(item for _, item in pairs).values())
    top = per_item[-max(1, len(per_item) // 100) :]
    return {
        "users": len(per_user),
        "items": len(per_item),
        "pairs": len(pairs),
        "density_percent": 100 * len(pairs) / (len(per_user) * len(per_item)),
        "items_per_user": (min(per_user), median(per_user), mean(per_user), max(per_user)),
        "users_per_item": (min(per_item), median(per_item), mean(per_item), max(per_item)),
        "top_percent_share": 100 * sum(top) / len(pairs),
    }


# --- Events ----------------------------------------------------------------------------------------------------------


def merge(rows, rule):
    """{(user, item): (value, time)} of rows (user, item, value, time); value and time may be None throughout.

    Without values each row counts 1. "last" takes the row with the latest time, the lower one among equals.
    """
    merged = {}
    for user, item, value, time in rows:
        value = 1 if value is None else value
        if (user, item) not in merged:
            merged[user, item] = value, time
            continue
        old_value, old_time = merged[user, item]
        newer = time is None or time >= old_time
        if rule == "sum":
            merged[user, item] = old_value + value, time if newer else old_time
        elif newer:
            merged[user, item] = value, time
    return merged


# --- Filters: on {(user, item): value} -------------------------------------------------------------------------------


def keep_values(pairs, least):
    return {pair: value for pair, value in pairs.items() if value >= least}


def keep_users(pairs, least):
    return {pair: value for pair, value in pairs.items() if sum(pair[0] == user for user, _ in pairs) >= least}


def keep_items(pairs, least):
    return {pair: value for pair, value in pairs.items() if sum(pair[1] == item for _, item in pairs) >= least}


def k_core(pairs, per_user, per_item):
    """Throw out one offending user or item at a time until there is none."""
    pairs = dict(pairs)
    while True:
        for axis, least in ((0, per_user), (1, per_item)):
            counts = Counter(pair[axis] for pair in pairs)
            poor = next((one for one, count in counts.items() if count < least), None)
            if poor is not None:
                pairs = {pair: value for pair, value in pairs.items() if pair[axis] != poor}
                break
        else:
            return pairs


# --- Splits ----------------------------------------------------------------------------------------------------------


def latest_moment(times, share):
    """The latest of `times` from which on at least `share` (as it is written: 0.8 is four fifths) of them lie."""
    wanted = Fraction(str(share)) * len(times)
    return max(moment for moment in times if sum(time >= moment for time in times) >= wanted)
