"""Slow, plain implementations that say what is right, written from the specification and never from `src`.

Nothing here imports `spherec`: data sets are read through their documented attributes only.
"""

import math
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


# --- Space and losses ------------------------------------------------------------------------------------------------


def dot(one, other):
    total = 0.0
    for a, b in zip(one, other, strict=True):
        total += a * b
    return total


def squared_distance(one, other):
    total = 0.0
    for a, b in zip(one, other, strict=True):
        total += (a - b) ** 2
    return total


def hinge(positive, negatives, margin):
    """[d²(u, v_j) − min_k d²(u, v_k) + margin]₊ of one pair, from squared distances; 0 without negatives."""
    if not negatives:
        return 0.0
    nearest = negatives[0]
    for negative in negatives:
        if negative < nearest:
            nearest = negative
    excess = positive - nearest + margin
    return excess if excess > 0 else 0.0


def rank_weight(positive, negatives, margin, n_items):
    """log(1 + I · the share of negatives inside the margin) of one pair, from squared distances; 0 without any."""
    if not negatives:
        return 0.0
    inside = 0
    for negative in negatives:
        if negative < positive + margin:
            inside += 1
    return math.log(1 + n_items * inside / len(negatives))


def softmin(positive, negatives, temperature, gamma, n_items):
    """log(1 + Σ_k exp((s_ik − s_ij)/τ − γ·log(q_k·I))) of one pair, from its dot product and [(dot product, q_k)].

    Where q_k is None, the negative counts as drawn uniformly.
    """
    total = 1.0
    for similarity, q in negatives:
        bias = 0.0 if q is None else math.log(q * n_items)
        total += math.exp((similarity - positive) / temperature - gamma * bias)
    return math.log(total)


def covariance(vectors):
    """(‖Cov‖_F² − ‖diag Cov‖²) / n: the squares of what stands beside the diagonal of the D × D covariance."""
    n, dim = len(vectors), len(vectors[0])
    columns = []
    for a in range(dim):
        column = [vector[a] for vector in vectors]
        columns.append([value - sum(column) / n for value in column])
    total = 0.0
    for a in range(dim):
        for b in range(dim):
            if a != b:
                total += (dot(columns[a], columns[b]) / n) ** 2
    return total / n


def spread_out(pairs, dim):
    """(mean dot)² + [mean dot² − 1/D]₊ over pairs of vectors (v_j, v_k); 0 without pairs."""
    if not pairs:
        return 0.0
    first = second = 0.0
    for one, other in pairs:
        similarity = dot(one, other)
        first += similarity / len(pairs)
        second += similarity**2 / len(pairs)
    return first**2 + max(0.0, second - 1 / dim)


# --- Adam ------------------------------------------------------------------------------------------------------------


def adam(start, gradients, learning_rate, beta1=0.9, beta2=0.999, epsilon=1e-8):
    """Where one number stands after each step of algorithm 1 of Kingma and Ba; a step without a gradient has 0.0."""
    place, mean, square = start, 0.0, 0.0
    places = []
    for step, gradient in enumerate(gradients, 1):
        mean = beta1 * mean + (1 - beta1) * gradient
        square = beta2 * square + (1 - beta2) * gradient**2
        unbiased_mean = mean / (1 - beta1**step)
        unbiased_square = square / (1 - beta2**step)
        place -= learning_rate * unbiased_mean / (math.sqrt(unbiased_square) + epsilon)
        places.append(place)
    return places


# --- Sampling --------------------------------------------------------------------------------------------------------


def popularity_law(matrix, beta):
    """[Pr(j)] of equation 4 of the paper: f(j)^beta over the sum of all, f the users who have j; 0 where f is 0."""
    counts = [sum(bool(row[item]) for row in matrix) for item in range(len(matrix[0]))]
    weights = [float(count) ** beta if count else 0.0 for count in counts]
    return [weight / sum(weights) for weight in weights]


def law_without(law, places):
    """The law where some places are not to be drawn; all zero where no other is left."""
    left = [0.0 if place in places else probability for place, probability in enumerate(law)]
    return [probability / sum(left) if any(left) else 0.0 for probability in left]


def successive_law(weights, n):
    """{n places drawn one after the other without replacement, in this order: probability}.

    Fewer than n where no others have a weight above 0.
    """
    if n == 0 or not any(weights):
        return {(): 1.0}
    law = {}
    for place, weight in enumerate(weights):
        if weight > 0:
            rest = [0.0 if other == place else left for other, left in enumerate(weights)]
            for later, probability in successive_law(rest, n - 1).items():
                law[place, *later] = weight / sum(weights) * probability
    return law


def independent_law(law, n):
    """{n places drawn with replacement, in this order: probability}."""
    if n == 0:
        return {(): 1.0}
    return {
        (place, *later): first * probability
        for place, first in enumerate(law)
        if first > 0
        for later, probability in independent_law(law, n - 1).items()
    }


def image_law(law, image):
    """{image of an outcome: probability}, for a law {outcome: probability}."""
    images = defaultdict(float)
    for outcome, probability in law.items():
        images[image(outcome)] += probability
    return dict(images)


def hardest(places, distances):
    """The place with the least distance to the user."""
    return min(places, key=lambda place: distances[place])


def semi_hardest(places, distances, of_positive, margin):
    """The nearest that lies farther than the positive but violates the margin; where none does, the nearest."""
    violating = [place for place in places if of_positive < distances[place] < of_positive + margin]
    return hardest(violating or places, distances)


def dot_product_density(s, dim):
    """p(s) of section 3.1, for two independent directions, but for its constant 1 / Beta((d - 1) / 2, 1 / 2)."""
    return (1 - s * s) ** ((dim - 1) / 2 - 1)


def stage_two_law(positive, others, sharpness, cap, multiplicity):
    """[Pr(n | v_j)] of section 3.2 over the candidates' vectors, to the power `sharpness`, with s capped.

    `multiplicity` says how often each is among the candidates: 0 for what must not be chosen. All zero if all are.
    """
    weights = []
    for other, times in zip(others, multiplicity, strict=True):
        s = dot(positive, other) / math.sqrt(dot(positive, positive) * dot(other, other))
        weights.append(times / dot_product_density(min(s, cap), len(positive)) ** sharpness if s >= 0 else 0.0)
    if not any(weights):
        weights = multiplicity
    return [weight / sum(weights) if any(weights) else 0.0 for weight in weights]


# --- Ranking and metrics ---------------------------------------------------------------------------------------------


def best_with_reach(user, items, reach, share, listed, k, *, ball=False):
    """[(item, score)] of the k best of `listed`: u·v, a share of the item's mean reach, in the ball less |v|²/2."""
    scores = {
        item: dot(user, items[item]) + share * mean(reach[item]) - (dot(items[item], items[item]) / 2 if ball else 0)
        for item in listed
    }
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]


def nearest(user, items, own, k):
    """[(item, squared distance)] of the k items nearest to a user's vector, the lower index first among equally near.

    Those in `own` are left out.
    """
    near = []
    for item, vector in enumerate(items):
        if item not in own:
            near.append((squared_distance(user, vector), item))
    return [(item, distance) for distance, item in sorted(near)[:k]]


def ndcg(ranked, held_out, k):
    """NDCG@k of one user: Σ 1/log2(r + 1) over the ranks r of hits, over that of min(|held out|, k) hits on top."""
    gain = ideal = 0.0
    for rank, item in enumerate(ranked[:k], 1):
        if item in held_out:
            gain += 1 / math.log2(rank + 1)
    for rank in range(1, min(len(held_out), k) + 1):
        ideal += 1 / math.log2(rank + 1)
    return gain / ideal


def mean_ndcg(users, items, own, held_out, k):
    """The mean over users with held-out items, from vectors and {user: set of items}; all but `own` are ranked."""
    values = []
    for user, vector in enumerate(users):
        if held_out.get(user):
            ranked = [item for item, _ in nearest(vector, items, own.get(user, ()), k)]
            values.append(ndcg(ranked, held_out[user], k))
    return mean(values)


# --- Metrics of lists ------------------------------------------------------------------------------------------------
# A list holds distinct items, best first, and -1 in the places that are left; `held_out` is a set with at least one.


def average_precision(ranked, held_out, k):
    """AP@k of one user: the sum over hits of the share of hits down to there, over min(|held out|, k)."""
    found, total = 0, Fraction(0)
    for rank, item in enumerate(ranked[:k], 1):
        if item in held_out:
            found += 1
            total += Fraction(found, rank)
    return total / min(len(held_out), k)


def recall(ranked, held_out, k):
    return Fraction(len(held_out.intersection(ranked[:k])), len(held_out))


def precision(ranked, held_out, k):
    """Of all k places, those without an item, too."""
    return Fraction(len(held_out.intersection(ranked[:k])), k)


def hit_rate(ranked, held_out, k):
    return int(any(item in held_out for item in ranked[:k]))


def reciprocal_rank(ranked, held_out, k):
    for rank, item in enumerate(ranked[:k], 1):
        if item in held_out:
            return Fraction(1, rank)
    return 0


def median_popularity(ranked, popularity):
    """What MMR is the mean of: the median over a user's list of the items' training counts; NaN of no items."""
    counts = [popularity[item] for item in ranked if item != -1]
    return median(counts) if counts else math.nan


def mean_popularity(ranked, popularity):
    counts = [popularity[item] for item in ranked if item != -1]
    return Fraction(sum(counts), len(counts)) if counts else math.nan


def novelty(ranked, owners, n_users):
    """The mean of −log2 of the share of users who have an item; one whom nobody has counts as if one had."""
    shares = [max(len(owners[item]), 1) / n_users for item in ranked if item != -1]
    return -sum(map(math.log2, shares)) / len(shares) if shares else math.nan


def intra_list_distance(ranked, owners):
    """The mean of 1 − |both| / √(|one| |other|) over pairs of items, by their users; NaN below two items."""
    pairs = [(owners[a], owners[b]) for at, a in enumerate(ranked) for b in ranked[:at] if -1 not in (a, b)]
    far = [1 - (len(one & other) / math.sqrt(len(one) * len(other)) if one and other else 0) for one, other in pairs]
    return sum(far) / len(far) if far else math.nan


def coverage(lists, n_items):
    return Fraction(len({item for ranked in lists for item in ranked if item != -1}), n_items)


def gini(lists, n_items):
    """The mean difference of how often two items are listed, over twice the mean; 0 where nothing is listed."""
    times = Counter(item for ranked in lists for item in ranked if item != -1)
    differences = sum(abs(times[one] - times[other]) for one in range(n_items) for other in range(n_items))
    return Fraction(differences, 2 * n_items * times.total()) if times else 0
