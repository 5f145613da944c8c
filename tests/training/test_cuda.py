"""Training on a GPU: it learns, agrees with the CPU, never waits for the device, and repeats itself bit by bit."""

import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import distributed

from spherec.errors import DataError, NotEnoughMemoryError
from spherec.geometry import DenseVectors
from spherec.losses import Hinge, Softmin
from spherec.ranking import ExactRanker
from spherec.sampling import Negatives, Sampling, TwoStage, Uniform
from spherec.training.step import Batches, Run
from tests.sampling.checks import CPU, generator, interactions, random_rows
from tests.training.planted import GOOD, SETTINGS, TRAIN, quality
from tests.training.runs import DATA, QUICK, SAMPLERS, STEPS, each_sampler, facts, falling, same, start, train, trained
from tests.training.test_features import features_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode"),
]
CUDA = torch.device("cuda")
LOSSES = {"hinge": Hinge(), "rank weight": Hinge(rank_weight=True), "softmin": Softmin()}

each_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


@pytest.fixture
def no_waiting():
    """Makes every wait of the host for the device an error, once it is called."""
    yield lambda: torch.cuda.set_sync_debug_mode("error")
    torch.cuda.set_sync_debug_mode("default")


@pytest.fixture
def press_at(monkeypatch):
    """For `progress`: Ctrl-C after some step, counted from 1."""
    monkeypatch.setattr("spherec.training.trainer._SECONDS_BETWEEN_REPORTS", 0)

    def press_at(step):
        steps = iter(range(1, 1_000_000))
        return lambda *_: signal.raise_signal(signal.SIGINT) if next(steps) == step else None

    return press_at


class SetNegatives:
    """A sampler that gives the same negatives on every device: distinct items that the user does not have."""

    def __init__(self, *_, **__):
        self._generator = generator(3)

    def sample(self, users, positives, geometry, generator):
        keys = torch.rand(len(users), DATA.n_items, generator=self._generator)
        for row, user in enumerate(users.tolist()):
            keys[row, DATA.items_of(user).tolist()] = 2
        items = keys.argsort(1)[:, :4]
        valid = torch.rand(len(users), 4, generator=self._generator) < 0.9
        return Negatives(items.to(users.device), valid.to(users.device), items.to(users.device) * 0.1 - 4)


def run_on(device, features=None, **settings):
    """A run before its first step."""
    config = replace(QUICK, **settings)
    model = start(constraint=config.constraint)
    first = DenseVectors(model.user_table.to(device), model.item_table.to(device), config.constraint)
    return Run(DATA, config, first, features)


def batch_on(device, size=16):
    """The first pairs."""
    return [torch.tensor(one[:size].copy(), dtype=torch.int64, device=device) for one in (DATA.users, DATA.indices)]


@pytest.mark.parametrize("loss", [Hinge(), Softmin()], ids=["hinge", "softmin"])
@pytest.mark.parametrize("sampler", [Uniform(5), TwoStage(candidates=60)], ids=["uniform", "two-stage"])
def test_clusters_are_found(sampler, loss):
    result = train(TRAIN, replace(SETTINGS, sampler=sampler, loss=loss), device="cuda")
    assert result.vectors.user_table.is_cuda
    assert quality(result.vectors) >= GOOD


@each_loss
@pytest.mark.parametrize("penalties", [{}, {"covariance": 10.0, "spread_out": 10.0}], ids=["plain", "penalties"])
@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@pytest.mark.parametrize("subspace_dim", [None, 4])
@pytest.mark.parametrize(("steps", "tolerance"), [(1, 1e-5), (30, 1e-4)])
def test_a_step_moves_rows_as_on_the_cpu(steps, tolerance, subspace_dim, constraint, penalties, loss, monkeypatch):
    monkeypatch.setattr(Uniform, "build", SetNegatives)
    settings = {"loss": loss, "constraint": constraint, "subspace_dim": subspace_dim, **penalties}
    runs = [run_on(device, **settings) for device in (CPU, CUDA)]
    for run, device in zip(runs, (CPU, CUDA), strict=True):
        for _ in range(steps):
            run.step(*batch_on(device))
    expected, model = (run.vectors.copy() for run in runs)
    torch.testing.assert_close(model.user_table.cpu(), expected.user_table, atol=tolerance, rtol=0)
    torch.testing.assert_close(model.item_table.cpu(), expected.item_table, atol=tolerance, rtol=0)
    torch.testing.assert_close(runs[1].sums.cpu(), runs[0].sums, atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize("subspace_dim", [None, 4])
@pytest.mark.parametrize("loss", [Softmin(0.2), Hinge()], ids=["softmin", "hinge"])
def test_features_move_as_on_the_cpu(loss, subspace_dim, monkeypatch):
    monkeypatch.setattr(Uniform, "build", SetNegatives)
    # Without rounding, which tests of the kernels look at.
    monkeypatch.setattr("spherec.kernels.cuda.features._FACTORS", torch.float32)
    monkeypatch.setattr("spherec.kernels.cuda.features.multiply_halves", torch.matmul)
    maps = []
    for device in (CPU, CUDA):
        run = run_on(device, features=features_of(without=[2]), loss=loss, subspace_dim=subspace_dim)
        for _ in range(30):
            run.step(*batch_on(device))
        maps.append((run.vectors.copy().to(CPU), run.copy_feature_map()))
    torch.testing.assert_close(maps[0][0].item_table, maps[1][0].item_table, atol=1e-4, rtol=0)
    torch.testing.assert_close(maps[0][1].weights, maps[1][1].weights.cpu(), atol=1e-4, rtol=0)


@each_sampler
def test_a_run_with_features_never_waits_repeats_itself_and_resumes(sampler, no_waiting, press_at, tmp_path):
    settings = {"loss": Softmin(0.2), "sampler": sampler, "subspace_dim": 4, "reach": True, "device": CUDA}
    features = features_of(without=[2])
    path, one, other = tmp_path / "run.checkpoint", *(trained(features=features, **settings) for _ in range(2))
    assert same(one.vectors, other.vectors)
    trained(features=features, **settings, checkpoint=path, progress=press_at(STEPS + 3))
    resumed = trained(features=features, **settings, checkpoint=path, resume=True)
    assert same(resumed.vectors, one.vectors)
    assert torch.equal(resumed.feature_map.weights, one.feature_map.weights)
    run = run_on(CUDA, features=features, loss=Softmin(0.2), sampler=sampler)
    batch = batch_on(CUDA)
    for _ in range(2):
        run.step(*batch)
    no_waiting()
    for _ in range(10):
        run.step(*batch)


REACH = {"reach": True, "loss": Softmin(0.2), "sampler": SAMPLERS["popularity shared"]}


@pytest.mark.parametrize("subspace_dim", [None, 4])
@pytest.mark.parametrize("loss", [Softmin(0.2), Hinge()], ids=["softmin", "hinge"])
def test_reach_moves_as_on_the_cpu(loss, subspace_dim, monkeypatch):
    monkeypatch.setattr(Uniform, "build", SetNegatives)
    dial = torch.rand(30, 16, generator=generator(5))
    vectors = []
    for device in (CPU, CUDA):
        run = run_on(device, loss=loss, reach=True, subspace_dim=subspace_dim)
        steps = iter(dial.to(device))
        monkeypatch.setattr("spherec.training.step.draw_dial", lambda *_, steps=steps: next(steps))
        for _ in range(len(dial)):
            run.step(*batch_on(device))
        vectors.append(run.vectors.copy().to(CPU))
    torch.testing.assert_close(vectors[0].item_table, vectors[1].item_table, atol=1e-4, rtol=0)
    torch.testing.assert_close(vectors[0].item_reach, vectors[1].item_reach, atol=1e-4, rtol=0)
    assert vectors[0].item_reach.abs().max() > 1e-3


def test_lists_with_reach_are_those_of_the_cpu():
    vectors = trained(**REACH).vectors
    users = np.arange(DATA.n_users)
    for place in (-0.5, 0.0, 0.7, users / 10):
        there = ExactRanker(vectors.to(CUDA)).top(users, 7, without=DATA, mainstream=place)
        here = ExactRanker(vectors).top(users, 7, without=DATA, mainstream=place)
        np.testing.assert_allclose(there.scores, here.scores, atol=1e-5)


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@pytest.mark.parametrize("k", [1, 10, 59, 60, 70])
def test_lists_are_those_of_the_cpu(k, constraint):
    users, items = (torch.randint(-2, 3, (n, 3), generator=generator(n)).float() for n in (50, 60))
    own = interactions(random_rows(50, 60, 0.3))
    expected, result = (
        ExactRanker(DenseVectors(users.to(device), items.to(device), constraint)).top(np.arange(50), k, without=own)
        for device in (CPU, CUDA)
    )
    assert np.array_equal(result.items, expected.items)
    assert np.array_equal(result.scores, expected.scores)


@pytest.mark.parametrize("penalty", [0.0, 0.1])
@each_loss
@each_sampler
def test_a_step_never_waits_for_the_device(sampler, loss, penalty, no_waiting):
    run = run_on(CUDA, sampler=sampler, loss=loss, covariance=penalty, spread_out=penalty)
    batch = batch_on(CUDA)
    run.step(*batch)
    torch.cuda.synchronize()
    no_waiting()
    for _ in range(3):
        run.step(*batch)


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@each_sampler
def test_the_same_seed_gives_the_same_vectors_and_another_others(sampler, constraint):
    settings = {"sampler": sampler, "constraint": constraint, "device": CUDA, "epochs": 6}
    first = trained(seed=4, **settings)
    torch.cuda.manual_seed(7)
    state = torch.cuda.get_rng_state()
    again, other = (trained(seed=seed, **settings) for seed in (4, 5))
    assert torch.equal(torch.cuda.get_rng_state(), state), "global generators are neither used nor touched"
    assert same(first.vectors, again.vectors)
    assert facts(first.history) == facts(again.history)
    assert not same(first.vectors, other.vectors)


@pytest.mark.parametrize("subspace_dim", [None, 4])
@pytest.mark.parametrize("at_once", [1, 2, 16])
@each_sampler
def test_recorded_steps_learn_what_plain_ones_do(sampler, at_once, subspace_dim, monkeypatch):
    monkeypatch.setattr("spherec.training.graphs._AT_ONCE", at_once)
    recorded = trained(sampler=sampler, subspace_dim=subspace_dim, device=CUDA)
    monkeypatch.setattr("spherec.training.trainer.GraphedBatches", Batches)
    plain = trained(sampler=sampler, subspace_dim=subspace_dim, device=CUDA)
    assert same(recorded.vectors, plain.vectors)
    assert facts(recorded.history) == facts(plain.history)


@pytest.mark.skipif(not distributed.is_nccl_available(), reason="torch has no NCCL here")
@pytest.mark.parametrize("name", ["uniform", "popularity shared", "two-stage live"])
def test_one_process_of_a_group_learns_what_a_process_alone_does(name, tmp_path):
    settings = {"sampler": SAMPLERS[name], "device": CUDA, "validate": falling, "loss": LOSSES["softmin"]}
    alone = trained(**settings)
    distributed.init_process_group("nccl", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        grouped = trained(checkpoint=tmp_path / "c", **settings)
    finally:
        distributed.destroy_process_group()
    assert same(alone.vectors, grouped.vectors)
    assert facts(alone.history) == facts(grouped.history)


class Remembering(Sampling):
    """Draws beside what it saw of the vectors in the batch before."""

    negatives = 2

    def build(self, train, device, *, initial_items):
        self._seen = torch.zeros(1, dtype=torch.int64, device=device)
        return self

    def sample(self, users, positives, geometry, generator):
        random = torch.empty(len(users), 2, dtype=torch.int64, device=users.device).random_(generator=generator)
        items = (random + self._seen) % DATA.n_items
        self._seen.copy_((1e6 * geometry.items(items[0]).sum()).abs().long())
        return Negatives(items, torch.ones_like(items, dtype=torch.bool))


def test_a_sampler_may_remember_what_it_saw(monkeypatch):
    recorded = trained(sampler=Remembering(), device=CUDA)
    monkeypatch.setattr("spherec.training.trainer.GraphedBatches", Batches)
    assert same(recorded.vectors, trained(sampler=Remembering(), device=CUDA).vectors)


def test_a_model_larger_than_the_gpu_is_refused_before_it_is_built(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1000, 2000))
    with pytest.raises(NotEnoughMemoryError, match="GB are free"):
        trained(device=CUDA, dim=1 << 20)


@each_sampler
@pytest.mark.parametrize("step", [1, 2, 5, STEPS, STEPS + 1, 2 * STEPS + 6])
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(step, sampler, press_at, tmp_path):
    settings = {"sampler": sampler, "device": CUDA, "validate": falling, "checkpoint": tmp_path / "run"}
    stopped = trained(**settings, progress=press_at(step))
    assert stopped.ended == "interrupted"
    resumed = trained(**settings, resume=True)
    whole = trained(sampler=sampler, device=CUDA, validate=falling)
    assert same(resumed.vectors, whole.vectors)
    assert facts(resumed.history) == facts(whole.history)


def test_the_checkpoint_of_a_cpu_is_not_taken(tmp_path):
    trained(epochs=1, checkpoint=tmp_path / "run")
    with pytest.raises(DataError, match="its device is cpu, here it is cuda"):
        trained(checkpoint=tmp_path / "run", resume=True, device=CUDA)
