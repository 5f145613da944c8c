"""Data, settings and vectors at the edge: a clear error, or finite vectors."""

import math

import numpy as np
import pytest
import torch

from spherec.errors import DataError, TrainingError
from spherec.geometry import DenseVectors
from spherec.losses import Hinge, Softmin
from spherec.sampling import TwoStage
from tests.training.runs import DATA, SAMPLERS, matrix, start, trained

each_sampler = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)


@pytest.mark.parametrize("data", [DATA.filter(np.zeros(len(DATA), bool)), matrix([0, 0], [0, 0])], ids=repr)
def test_nothing_to_train_on_is_refused(data):
    with pytest.raises(DataError, match="no pairs to train on"):
        trained(data)


@pytest.mark.parametrize("constraint", ["sphere", "ball"])
@pytest.mark.parametrize("penalty", ["covariance", "spread_out"])
@pytest.mark.parametrize("validate", [None, lambda _: 1.0], ids=["unseen", "validated"])
def test_a_loss_that_is_no_number_ends_the_run(validate, penalty, constraint):
    with pytest.raises(TrainingError, match=r"the loss is nan in epoch 1; lower learning_rate"):
        trained(validate=validate, constraint=constraint, **{penalty: 1e300})


ODD = {
    "a user with every item": ([1, 1, 1, 1], [1, 0, 0, 1]),
    "everybody has everything": ([1, 1], [1, 1]),
    "one pair in all": ([1],),
    "one user": ([1, 0, 1, 0],),
    "one item": ([1], [1], [1]),
    "users and items without a pair": ([0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]),
}


@each_sampler
@pytest.mark.parametrize("rows", ODD.values(), ids=ODD)
def test_odd_data_gives_finite_vectors(rows, sampler):
    data = matrix(*rows)
    for loss in (Hinge(), Hinge(rank_weight=True), Softmin()):
        for constraint in ("sphere", "ball"):
            settings = {"loss": loss, "constraint": constraint, "covariance": 0.1, "spread_out": 0.1}
            result = trained(data, sampler=sampler, epochs=2, **settings)
            assert result.vectors.user_table.shape == (data.n_users, 8)
            assert result.vectors.user_table.isfinite().all()
            assert result.vectors.item_table.isfinite().all()
            assert all(math.isfinite(record.loss) for record in result.history.epochs)


def test_users_and_items_without_a_pair_stay_where_they_are():
    data = matrix([1, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0])
    initial = start(data)
    model = trained(data, initial=initial, sampler=TwoStage(1, beta=0), loss=Softmin()).vectors
    assert torch.equal(model.user_table[1], initial.user_table[1])
    assert torch.equal(model.item_table[2:], initial.item_table[2:])
    assert not torch.equal(model.user_table[0], initial.user_table[0])


@pytest.mark.parametrize("sampler", [TwoStage.as_written(3), TwoStage.as_released(3)], ids=["live", "frozen"])
def test_identical_vectors_in_many_dimensions_are_no_trouble(sampler):
    initial = DenseVectors(torch.ones(20, 512), torch.ones(30, 512))
    result = trained(dim=512, sampler=sampler, initial=initial)
    assert result.vectors.item_table.isfinite().all()
    assert result.history.epochs[0].loss == pytest.approx(1)  # the margin
    assert result.history.epochs[0].masked < 0.1
