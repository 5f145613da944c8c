"""Models with a sampler or a loss of the user's own: saved, loaded and asked like any other."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

import spherec
from spherec.errors import ArgumentError
from spherec.losses.loss import Loss
from spherec.sampling.sampler import Sampling
from tests.recommender.models import small

DATA = small(density=0.3)


@dataclass(frozen=True)
class Steep(Sampling):
    """Draws mostly the items with a low index, by a law that only this class knows."""

    negatives: int = 2
    decay: float = 0.7

    def law(self, train):
        return self.decay ** np.arange(train.n_items)

    def build(self, train, device, *, initial_items):
        return spherec.Uniform(self.negatives).build(train, device, initial_items=initial_items)


@dataclass(frozen=True)
class Squared(Loss):
    """The hinge, squared."""

    margin: float = 0.8

    def __call__(self, triplets):
        return (self.margin + triplets.positive - triplets.nearest()).clamp_min(0).square()

    @property
    def distance_scale(self):
        return 0.37 * self.margin


PARTS = {
    "sampler": {"sampler": Steep(3, 0.8)},
    "loss": {"loss": Squared(0.5), "sampler": spherec.Uniform(2)},
    "both": {"loss": Squared(), "sampler": Steep()},
}


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_a_loaded_model_answers_as_before(parts, tmp_path):
    model = spherec.CML(dim=6, epochs=2, batch_size=32, device="cpu", **parts).fit(DATA, validation=0, progress=False)
    model.save(tmp_path / "m.spherec")
    loaded = spherec.load(tmp_path / "m.spherec", device="cpu")
    for items in (["i1"], ["i2", "i5", "i9"], ["i28", "i29"]):
        assert loaded.recommend_for(items, 30) == model.recommend_for(items, 30)
    assert loaded.recommend(list(DATA.user_ids), 9) == model.recommend(list(DATA.user_ids), 9)
    new = spherec.Interactions.from_pairs(["zoe", "zoe"], ["i3", "i8"])
    assert loaded.fold_in(new).recommend("zoe", 30) == model.fold_in(new).recommend("zoe", 30)
    loaded.save(tmp_path / "again.spherec")
    assert (tmp_path / "again.spherec").read_bytes() == (tmp_path / "m.spherec").read_bytes()


def test_training_goes_on_with_the_class(tmp_path):
    model = spherec.CML(dim=6, epochs=2, batch_size=32, device="cpu", sampler=Steep())
    model.fit(DATA, validation=0, progress=False).save(tmp_path / "m.spherec")
    loaded = spherec.load(tmp_path / "m.spherec", device="cpu")
    new = spherec.Interactions.from_pairs(["zoe", "zoe"], ["i3", "i8"])
    with pytest.raises(ArgumentError, match=r"unknown kind Steep; pass .* spherec\.load\(path, sampler=Steep\(…\)\)"):
        loaded.partial_fit(new, validation=0, progress=False)
    with pytest.raises(ArgumentError, match="trained with the sampler Steep, got Uniform"):
        spherec.load(tmp_path / "m.spherec", sampler=spherec.Uniform(2))
    with pytest.raises(ArgumentError, match="trained with the loss Hinge, got Squared"):
        spherec.load(tmp_path / "m.spherec", loss=Squared())
    loaded = spherec.load(tmp_path / "m.spherec", device="cpu", sampler=Steep())
    loaded.partial_fit(new, validation=0, progress=False)
    model.partial_fit(new, validation=0, progress=False)
    assert torch.equal(loaded.vectors.user_table, model.vectors.user_table)
    assert loaded.recommend_for(["i1"], 30) == model.recommend_for(["i1"], 30)
