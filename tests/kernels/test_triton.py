"""The kernels for GPUs against what they replace. Where there is no GPU, Triton's interpreter runs them on the CPU.

The interpreter runs one program after the other, a few milliseconds each: cases are small, and races stay unseen.
"""

import os
from bisect import bisect_right

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from spherec.geometry import unit
from spherec.kernels import cuda
from spherec.losses import Hinge, Softmin
from spherec.optim import Adam, DenseAdam
from spherec.sampling import Hard, Popularity, TwoStage, Uniform
from spherec.sampling.candidates import _first_distinct
from spherec.sampling.draw import Draw
from spherec.sampling.popularity import popularity_weights
from spherec.sampling.two_stage import TwoStageSampler
from spherec.training import Training
from spherec.training.run import Run
from tests.kernels.test_hinge import N_ITEMS, by_autograd
from tests.kernels.test_hinge import batch as hinge_batch
from tests.oracles import successive_law
from tests.sampling.checks import ROWS, assert_follows, generator, interactions, random_rows, space, sparse
from tests.training.runs import start

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
INTERPRETED = DEVICE.type == "cpu"
if INTERPRETED:
    os.environ["TRITON_INTERPRET"] = "1"  # asked when Triton is imported, and nothing before has done that

triton = pytest.importorskip("triton", reason="Triton is not installed")

import triton.language as tl  # noqa: E402

from spherec.kernels.cuda import adam, batch, draw, hinge, order, two_stage  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numpy, about what `tl.where` throws away
LAW_PAIRS = 200 if INTERPRETED else 20_000
AFTER_STEPS = 1e-6 if INTERPRETED else 1e-5  # Adam makes much of how a GPU adds up gradients near 0


@pytest.fixture
def both(monkeypatch):
    """What a function builds, through Triton and then without."""

    def both(build):
        built = []
        for serves in (True, False):
            monkeypatch.setattr(cuda, "serves", lambda _, serves=serves: serves)
            built.append(build())
        return built

    return both


def assert_close(ours, theirs, atol=1e-6):
    torch.testing.assert_close(ours, theirs, atol=atol, rtol=1e-5)


# --- adam ------------------------------------------------------------------------------------------------------------


def optimisers(both, dim, constraint, config, length=1.0):
    table = length * unit(torch.randn(12, dim, generator=torch.Generator().manual_seed(0))).to(DEVICE)
    table[3] = 0
    kinds = {True: None, False: False}  # of `compiled`: Triton's, and plain torch
    return both(lambda: DenseAdam(table.clone(), config, constraint=constraint, compiled=kinds[cuda.serves(DEVICE)]))


def assert_same_rows(ours, theirs):
    index = torch.tensor([[11, 0, 3], [5, 5, 7]], device=DEVICE)
    assert_close(ours.rows(index), theirs.rows(index))
    assert_close(ours.vectors(index), theirs.vectors(index))
    for name, part in theirs.state().items():
        assert_close(ours.state()[name], part)


@pytest.mark.parametrize(
    ("dim", "constraint", "config"),
    [
        (5, "sphere", Adam(1e-2)),
        (24, "ball", Adam(1e-2, beta2=0.99)),
        (130, "sphere", Adam(0.1, beta1=0.5, beta2=0.9)),
        (128, "ball", Adam(0.1)),
    ],
)
def test_rows_move_as_without_triton(both, dim, constraint, config):
    ours, theirs = optimisers(both, dim, constraint, config, length=1.2)
    random = torch.Generator().manual_seed(1)
    for missed in (0, 0, 1, 40, 0, 10_000, 3, 0):  # by 10,000 steps, tables of all but the last have come to their end
        index = torch.randint(9, (7,), generator=random)  # some come twice, rows 9 … never
        gradient = torch.randn(7, dim, generator=random) * 10 ** torch.empty(7, 1).uniform_(-4, 1, generator=random)
        for one in (ours, theirs):
            one.step(index.to(DEVICE), gradient.to(DEVICE))
            one.steps += missed
        assert_same_rows(ours, theirs)


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
def test_rows_move_as_without_triton_where_no_mean_is_kept(both, constraint):
    ours, theirs = optimisers(both, 6, constraint, Adam(1e-2, beta1=0))
    for seed in range(3):
        index, gradient = torch.tensor([1, 2, 1], device=DEVICE), torch.randn(3, 6, generator=generator(seed))
        for one in (ours, theirs):
            one.step(index, gradient.to(DEVICE))
        assert_same_rows(ours, theirs)


def test_gradients_of_one_row_all_add_up_and_none_is_a_step_too(both):
    ours, theirs = optimisers(both, 5, "sphere", Adam())
    gradient = torch.randn(40, 5, generator=generator()).to(DEVICE)
    for one in (ours, theirs):
        one.step(torch.full((40,), 7, device=DEVICE), gradient)
        one.step(torch.empty(0, dtype=torch.int64, device=DEVICE), torch.empty(0, 5, device=DEVICE))
    assert_same_rows(ours, theirs)


def test_rows_and_vectors_have_the_lengths_of_the_space(both):
    on_sphere, in_ball = (optimisers(both, 24, kind, Adam(), length=3.0)[0] for kind in ("sphere", "ball"))
    everything = torch.arange(12, device=DEVICE)
    not_3 = everything != 3  # which is 0, and stays
    assert_close(on_sphere.vectors(everything).norm(dim=1), not_3.float())
    assert_close(on_sphere.rows(everything).norm(dim=1), 3 * not_3.float())
    assert_close(in_ball.vectors(everything).norm(dim=1), not_3.float())
    assert on_sphere.rows(everything[:0]).shape == (0, 24)


def test_indices_gradients_and_users_may_be_every_other_of_a_tensor(both):
    ours, theirs = optimisers(both, 5, "sphere", Adam())
    index = torch.arange(12, device=DEVICE)[::2]
    gradient = torch.randn(5, 6, generator=generator()).to(DEVICE).T
    for one in (ours, theirs):
        one.step(index, gradient)
    assert_close(ours.rows(index), theirs.rows(index))
    assert_same_rows(ours, theirs)
    some, same = both(lambda: Draw(interactions(ROWS), np.ones(6), DEVICE, compiled=False))
    users = torch.arange(8, device=DEVICE)[::2]
    drawn, expected = (one.without(users, 9, generator(device=DEVICE))[0] for one in (some, same))
    assert torch.equal(drawn, expected)


class Recorder:
    """Stands in for a kernel, and keeps how it would have been started."""

    def __init__(self):
        self.options = {}

    def __getitem__(self, grid):
        return lambda *_, **options: self.options.update(options)


@pytest.mark.parametrize("dim", [2, 100, 128, 300, 384, 511, 512, 600, 2000])
def test_threads_come_in_powers_of_2_as_the_compiler_wants_them(dim, both, monkeypatch):
    read, move, pair = Recorder(), Recorder(), Recorder()
    ours, _ = optimisers(both, dim, "sphere", Adam())
    for module, name, recorder in ((adam, "_read", read), (adam, "_move", move), (hinge, "_pair", pair)):
        monkeypatch.setattr(module, name, recorder)
    ours.rows(torch.tensor([1], device=DEVICE))
    ours.step(torch.tensor([1], device=DEVICE), torch.zeros(1, dim, device=DEVICE))
    hinge_gradient(*hinge_batch(1, 1, dim), Hinge(), "sphere")
    for recorder in (read, move, pair):
        assert recorder.options["num_warps"].bit_count() == 1
        assert recorder.options["WIDTH"] == triton.next_power_of_2(dim)


# --- order -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [1, 7, 1 << 40])
@pytest.mark.parametrize("count", [1, 15, 16, 17, 512, 513, 8193, *([] if INTERPRETED else [8191, 8192])])
def test_order_is_that_of_a_stable_sort(count, values):
    index = torch.randint(values, (count,), generator=torch.Generator().manual_seed(count)).to(DEVICE)
    before = index.clone()
    for ours, theirs in zip(order.ascending(index), index.sort(stable=True), strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(index, before)


# --- hinge -----------------------------------------------------------------------------------------------------------


def hinge_gradient(rows, valid, loss, constraint):
    """Gradient, and of each pair the loss, whether it is active, and how many negatives it lacks."""
    settings = {"margin": loss.margin, "ranked": loss.rank_weight, "n_items": N_ITEMS}
    rows, valid = rows.to(DEVICE), valid.to(DEVICE)
    gradient, told = hinge.hinge_gradient(rows, valid, **settings, on_sphere=constraint == "sphere")
    return gradient.cpu(), told.cpu()


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@pytest.mark.parametrize("loss", [Hinge(), Hinge(0.2), Hinge(rank_weight=True)], ids=repr)
@pytest.mark.parametrize(("pairs", "n", "dim"), [(1, 1, 2), (8, 3, 24), (3, 2, 130)])
def test_the_hinge_and_its_gradient_are_those_of_autograd(pairs, n, dim, loss, constraint):
    rows, valid = hinge_batch(pairs, n, dim, scale=1 if constraint == "sphere" else dim**-0.5)
    valid[2:3] = False
    expected, total, active = by_autograd(rows, valid, loss, constraint)
    gradient, told = hinge_gradient(rows, valid, loss, constraint)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5)
    assert told[0].sum().item() == pytest.approx(total, rel=1e-4)
    assert told[1].sum() == active
    assert told[2].tolist() == (~valid).sum(1).tolist()
    assert not told[:2, 2:3].any()


@pytest.mark.parametrize("where", [0, 5, 10, 12], ids=["user", "positive", "first negative", "last negative"])
@pytest.mark.parametrize("constraint", ["sphere", "ball"])
def test_what_is_not_a_number_shows_in_the_loss_of_its_pair_alone(constraint, where):
    rows, valid = hinge_batch(5, 3, 6)
    valid[:] = True
    rows[where] = float("nan")
    loss = hinge_gradient(rows, valid, Hinge(4.0), constraint)[1][0]
    assert loss.isnan().tolist() == [True] + [False] * 4


def test_a_negative_that_is_masked_may_be_anything():
    rows, valid = hinge_batch(1, 3, 6)
    valid[:] = torch.tensor([False, True, False])
    expected = hinge_gradient(rows, valid, Hinge(), "sphere")
    rows[[2, 4]] = float("nan")
    for ours, theirs in zip(hinge_gradient(rows, valid, Hinge(), "sphere"), expected, strict=True):
        assert torch.equal(ours, theirs)


def test_rows_of_zeros_do_no_harm():
    rows, valid = hinge_batch(2, 2, 5)
    gradient, told = hinge_gradient(0 * rows, valid, Hinge(), "sphere")
    assert gradient.isfinite().all()
    assert told.isfinite().all()


# --- draw ------------------------------------------------------------------------------------------------------------


@triton.jit
def _search(values, low, high, wanted, out, rounds: tl.constexpr, size: tl.constexpr):
    at = tl.arange(0, size)
    found = draw.first_above(values, tl.load(low + at), tl.load(high + at), tl.load(wanted + at), rounds)
    tl.store(out + at, found)


@pytest.mark.parametrize("values", [[4], [0, 0, 0], [2, 2, 5, 9], [-3, 1, 1, 1, 7, 8, 1 << 40]], ids=str)
def test_the_first_above_is_found_between_any_two_places(values):
    ends = range(len(values) + 1)
    wanted = [-4, 0, 1, 2, 4, 5, 6, 9, 1 << 40, (1 << 40) - 1]
    asked = [(low, high, one) for low in ends for high in ends if low <= high for one in wanted]
    asked += [(0, 0, 0)] * (512 - len(asked))
    lows, highs, wanteds = torch.tensor(asked, device=DEVICE).T.contiguous()
    found = torch.empty_like(lows)
    _search[(1,)](torch.tensor(values, device=DEVICE), lows, highs, wanteds, found, len(values).bit_length(), 512)
    assert found.tolist() == [bisect_right(values, one, low, high) for low, high, one in asked]


WIDE = random_rows(30, 70, 0.3)
LAWS = {
    "uniform": (ROWS, np.ones(6)),
    "popular": (ROWS, popularity_weights(interactions(ROWS), 0.8)),
    "extreme": (ROWS, np.array([1e9, 0, 1e-12, 1, 3, 0])),
    "last": (ROWS, np.array([0, 0, 0, 0, 0, 2.0])),
    "one item": ([[0], [1]], np.ones(1)),
    "nobody has any": ([[0, 0, 0]], np.array([1.0, 2, 3])),
    "one user": ([[1] * 15 + [0]], np.arange(1.0, 17)),
    "many": (WIDE, popularity_weights(interactions(WIDE), -0.5)),
}


@pytest.mark.parametrize("n", [1, 7])
@pytest.mark.parametrize("law", LAWS)
def test_draws_without_a_users_items_are_those_without_triton(both, law, n):
    rows, weights = LAWS[law]
    ours, theirs = both(lambda: Draw(interactions(rows), weights, DEVICE, compiled=False))
    users = torch.arange(len(rows), device=DEVICE).flip(0).repeat(5)
    (items, valid), expected = (one.without(users, n, generator(device=DEVICE)) for one in (ours, theirs))
    assert torch.equal(items, expected[0])
    assert torch.equal(valid, expected[1])
    assert 0 <= items.min() <= items.max() < len(weights)
    for user, drawn, found in zip(users.tolist(), items.tolist(), valid.tolist(), strict=True):
        possible = {item for item, weight in enumerate(weights) if weight > 0 and not rows[user][item]}
        assert found == [bool(possible)] * n
        assert set(drawn) <= possible or not possible


def test_draws_for_many_users_are_those_without_triton(both):
    many = 1 << 18  # then users times numbers come near to what 64 bits hold
    starts = np.maximum(np.arange(many + 1) - many + 6, 0)  # the last six have one item each
    train, weights = sparse(starts, [0, 1, 2, 3, 4, 0], 5), np.array([5, 1e-3, 1, 9, 2])
    ours, theirs = both(lambda: Draw(train, weights, DEVICE, compiled=False))
    users = torch.arange(many - 8, many, device=DEVICE)
    (items, _), (expected, _) = (one.without(users, 40, generator(device=DEVICE)) for one in (ours, theirs))
    assert torch.equal(items, expected)


# --- two_stage -------------------------------------------------------------------------------------------------------


def empty_column(n_items):
    return torch.full((n_items,), two_stage.NOWHERE, dtype=torch.int32, device=DEVICE)


@pytest.mark.parametrize(
    ("n_items", "draws", "count"),
    [(1, 1, 1), (50, 200, 20), (10, 300, 10), (10, 300, 12), (40, 5, 30), (3000, 2500, 700), (9000, 1025, 1025)],
)
def test_the_first_distinct_are_those_without_triton(n_items, draws, count):
    weights = np.maximum(10**6 // np.arange(1, n_items + 1), 1)
    ends = torch.tensor(np.cumsum(weights), device=DEVICE)
    total, column = int(ends[-1]), empty_column(n_items)
    random = torch.empty(draws, dtype=torch.int64, device=DEVICE).random_(generator=generator(device=DEVICE))
    found, known = two_stage.first_distinct(random, ends, total, count, column)
    expected = _first_distinct(torch.searchsorted(ends, random % total, right=True), count)
    assert torch.equal(found, expected.items)
    assert known.tolist() == [expected.multiplicity.sum()]
    stands = {item: place for place, item in enumerate(found[: known.item()].tolist())}
    assert column.tolist() == [stands.get(item, two_stage.NOWHERE) for item in range(n_items)]


@triton.jit
def _noise(seed, out, size: tl.constexpr):
    at = tl.arange(0, size)
    tl.store(out + at, tl.rand(tl.load(seed), at))


def noise(seed, shape):
    """What the kernel draws under this seed."""
    size = triton.next_power_of_2(int(np.prod(shape)))
    out = torch.empty(size, device=DEVICE)
    _noise[(1,)](torch.tensor([seed], device=DEVICE), out, size)
    return out[: np.prod(shape)].reshape(shape).cpu()


SEED = 7_000_000_000_000_000_003
HELD = np.vstack((random_rows(6, 40, 0.3), np.zeros((1, 40)), np.ones((1, 40)), np.arange(40) >= 5)).astype(int)
NO_ITEM, EVERY_ITEM, MOST_ITEMS = 6, 7, 8


class Asked:
    """What stage two was asked for, and what it drew: for 27 pairs, of 30 places for candidates with 23 in them."""

    exponent, cap, n, known = -1.3, 0.875, 4, 23
    users = torch.tensor([*range(9), *range(9), *[NO_ITEM] * 9])
    candidates = torch.cat((torch.randperm(40, generator=generator(1))[:23], torch.zeros(7, dtype=torch.int64)))

    def __init__(self):
        self.similarity = torch.empty(27, 30).uniform_(-1, 1, generator=generator(2))
        self.own = torch.tensor(HELD)[self.users][:, self.candidates[:23]] > 0  # (27, 23)
        self.similarity[9:12].abs_().neg_()  # none is near
        self.similarity[12:14, :23] = torch.where(self.own[12:14], 0.9, -0.5)  # none but her own
        self.similarity[20, 5:] = -0.1
        self.similarity[21] = torch.where(torch.arange(30) % 3 == 0, 0.0, -0.5)
        self.near = ~self.own & (self.similarity[:, :23] >= 0)  # (27, 23)
        self.open = torch.where(self.near.any(1, keepdim=True), self.near, ~self.own)  # (27, 23)

    def drawn(self, seed=SEED):
        train, column = interactions(HELD), empty_column(40)
        column[self.candidates[:23]] = torch.arange(23, dtype=torch.int32, device=DEVICE)
        items, valid = two_stage.draw_distinct(
            self.similarity.to(DEVICE, copy=True),
            (self.candidates.to(DEVICE), torch.tensor([self.known], device=DEVICE)),
            self.users.to(DEVICE),
            tuple(torch.tensor(one, device=DEVICE) for one in (train.indptr, train.indices)),
            column,
            torch.tensor([seed], device=DEVICE),
            exponent=self.exponent,
            cap=self.cap,
            n=self.n,
        )
        assert (column == two_stage.NOWHERE).all(), "the column forgets"
        return items.cpu(), valid.cpu()


@pytest.fixture(scope="module")
def asked():
    asked = Asked()
    asked.items, asked.valid = asked.drawn()
    return asked


def test_what_is_drawn_is_distinct_and_open_until_nothing_is_left(asked):
    assert 0 <= asked.items.min() <= asked.items.max() < 40
    places = {item: place for place, item in enumerate(asked.candidates[:23].tolist())}
    for row, (items, valid) in enumerate(zip(asked.items.tolist(), asked.valid.tolist(), strict=True)):
        left = int(asked.open[row].sum())
        assert valid == [place < left for place in range(4)]
        chosen = items[: min(left, 4)]
        assert len(set(chosen)) == len(chosen)
        assert all(asked.open[row, places[item]] for item in chosen)
    assert not asked.valid[asked.users == EVERY_ITEM].any()
    assert asked.valid[asked.users == NO_ITEM].any(1).all()
    assert ((asked.open.sum(1) > 0) & (asked.open.sum(1) < 4)).any(), "to some, few are left"


def test_what_is_drawn_has_the_largest_of_weight_and_noise(asked):
    s = asked.similarity[:, :23].double().clamp(0, asked.cap)
    log_weights = torch.where(asked.near.any(1, keepdim=True), asked.exponent * torch.log1p(-s.square()), 0.0)
    keys = log_weights - (-noise(SEED, (27, 30))[:, :23].double().log()).log()
    best, places = keys.masked_fill(~asked.open, float("-inf")).topk(4)
    assert torch.equal(asked.valid, best > float("-inf"))
    assert torch.equal(asked.items[asked.valid], asked.candidates[places][asked.valid])


def test_noise_is_uniform_and_another_under_every_seed(asked):
    ones = noise(SEED, (64, 128))
    assert kstest(ones.flatten(), "uniform").pvalue > 1e-4
    for seed in (SEED + 1, SEED - (1 << 40)):  # the upper half of a seed counts, too
        others = noise(seed, (64, 128))
        assert abs(np.corrcoef(ones.flatten(), others.flatten())[0, 1]) < 0.05
    assert not torch.equal(asked.drawn(SEED - (1 << 40))[0], asked.items)


def test_draws_follow_the_law_of_stage_two(monkeypatch):
    monkeypatch.setattr("tests.sampling.checks.FEWEST_DRAWS", LAW_PAIRS)
    train, column = interactions([[1, 0, 0, 0, 0, 0]]), empty_column(6)
    column[:] = torch.arange(6, device=DEVICE)
    s = torch.tensor([0.9, 0.8, -0.2, 0.5, 0.0, 0.95])
    items, valid = two_stage.draw_distinct(
        s.repeat(LAW_PAIRS, 1).to(DEVICE),
        (torch.arange(6, device=DEVICE), torch.tensor([6], device=DEVICE)),
        torch.zeros(LAW_PAIRS, dtype=torch.int64, device=DEVICE),
        tuple(torch.tensor(one, device=DEVICE) for one in (train.indptr, train.indices)),
        column,
        torch.tensor([SEED], device=DEVICE),
        exponent=-1.5,
        cap=0.875,
        n=2,
    )
    assert valid.all()
    weights = [0, (1 - 0.8**2) ** -1.5, 0, (1 - 0.5**2) ** -1.5, 1, (1 - 0.875**2) ** -1.5]
    assert_follows(map(tuple, items.tolist()), successive_law(weights, 2))


@pytest.mark.parametrize(("negatives", "candidates"), [(3, 10), (20, 20)], ids=["some", "more than there are"])
def test_the_sampler_draws_what_users_do_not_have_batch_after_batch(monkeypatch, negatives, candidates):
    monkeypatch.setattr(cuda, "serves", lambda _: True)
    monkeypatch.setattr("spherec.sampling.candidates._MOST_DRAWS", 1000)  # else noise would find all items sooner
    rows = np.vstack((random_rows(4, 16, 0.4), np.ones((1, 16)))).astype(int)
    train, stream = interactions(rows), generator(device=DEVICE)
    sampler = TwoStageSampler(train, TwoStage(negatives, candidates=candidates), DEVICE)
    users = torch.tensor([4, 0, 1, 2, 3, 3], device=DEVICE)
    for _ in range(3):
        drawn = sampler.sample(users, users * 0, space(train).to(DEVICE), stream)
        items, valid = drawn.items.cpu(), drawn.valid.cpu()
        assert items.shape == valid.shape == (6, negatives)
        assert not rows[users.cpu()[:, None], items][valid.numpy()].any()
        assert valid.any(1).tolist() == [False] + [True] * 5
        assert all(len(set(one[found].tolist())) == found.sum() for one, found in zip(items, valid, strict=True))
        assert (sampler._column == two_stage.NOWHERE).all()


# --- batch, and whole steps ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "size"), [(0, 1), (3, 255), (1, 256), (500, 257), (243, 757)])
def test_the_next_batch_is_what_stands_in_the_order(first, size):
    pairs = [torch.randint(99, (1000,), generator=generator(seed), dtype=torch.int32).to(DEVICE) for seed in (1, 2)]
    at = torch.randperm(1000, generator=generator()).to(DEVICE)
    users, items = batch.next_batch(tuple(pairs), at, torch.tensor([first], device=DEVICE), size)
    assert torch.equal(users, pairs[0][at[first : first + size]].long())
    assert torch.equal(items, pairs[1][at[first : first + size]].long())


RUNS = {
    "uniform": {"sampler": Uniform(2)},
    "popularity, rank weight": {"sampler": Popularity(3), "loss": Hinge(rank_weight=True)},
    "hard": {"sampler": Hard(2, candidates=3)},
    "penalties": {"sampler": Uniform(2), "covariance": 1.0, "spread_out": 1.0},
    "shared softmin": {"sampler": Popularity(4, shared=True), "loss": Softmin()},
}


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@pytest.mark.parametrize("case", RUNS)
def test_a_step_moves_rows_as_without_triton(both, case, constraint):
    train = interactions(ROWS)
    config = Training(dim=6, constraint=constraint, optimizer=Adam(1e-2), **RUNS[case])
    ours, theirs = both(lambda: Run(train, config, start(train, 6, constraint).to(DEVICE)))
    pairs = [torch.tensor(one, dtype=torch.int64, device=DEVICE) for one in (train.users, train.indices)]
    for some in torch.randperm(len(train), generator=generator()).split(6)[:2]:
        for run in (ours, theirs):
            run.step(*(one[some.to(DEVICE)] for one in pairs))
        assert_close(ours.sums, theirs.sums, 1e-5)
    for one, other in zip(*((run.model().user_rows, run.model().item_rows) for run in (ours, theirs)), strict=True):
        assert_close(one, other, AFTER_STEPS)
