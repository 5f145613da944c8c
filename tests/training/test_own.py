"""A sampler and a loss of the user's own, as written in a notebook: trained, saved, loaded, resumed, described."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor

import spherec
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError
from spherec.geometry import Geometry
from spherec.losses import Hinge, Loss, Triplets, UnknownLoss
from spherec.sampling import Negatives, Sampling, UnknownSampling
from spherec.training import Training
from tests.recommender.models import small
from tests.training.planted import TRAIN as DATA
from tests.training.runs import train

NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, NEEDS_GPU])]


# At most 30 lines each, with nothing but the protocol's required method.
class NeverOwned:
    def __init__(self, owned: Tensor, negatives: int) -> None:
        self.owned, self.negatives = owned, negatives  # (U, I)

    def sample(self, users: Tensor, positives: Tensor, geometry: Geometry, generator: torch.Generator) -> Negatives:
        noise = torch.empty(len(users), self.owned.shape[1], device=users.device).uniform_(generator=generator)
        noise = noise.masked_fill(self.owned[users], -1.0)
        best, items = noise.topk(self.negatives, dim=1)
        return Negatives(items, best >= 0)


@dataclass(frozen=True)
class Free(Sampling):
    negatives: int = 3
    weight: float = 0.5

    def build(self, train: Interactions, device: torch.device, *, initial_items: Tensor) -> NeverOwned:
        owned = torch.tensor(train.matrix.toarray(), device=device).bool()
        return NeverOwned(owned, self.negatives)


class Logistic(Loss):
    def __init__(self, slope: float = 4.0) -> None:
        self.slope = slope

    def __call__(self, triplets: Triplets) -> Tensor:
        return torch.nn.functional.softplus(self.slope * (triplets.positive - triplets.nearest()))


CONFIG = Training(dim=8, batch_size=64, epochs=4, loss=Logistic(), sampler=Free())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "changes", [{}, {"constraint": "ball"}, {"subspace_dim": 4}, {"balance": 0.5}, {"spread_out": 1.0}]
)
def test_they_train_with_every_other_setting(device, changes):
    history = train(DATA, replace(CONFIG, **changes), device=device).history
    assert history.epochs[-1].loss < history.epochs[0].loss
    assert 0 < history.epochs[0].active <= 1


def test_their_settings_are_plain_data_and_come_back_as_placeholders():
    described = json.loads(json.dumps(CONFIG.to_dict()))
    assert described["loss"] == {"kind": "Logistic", "slope": 4.0}
    assert described["sampler"] == {"kind": "Free", "negatives": 3, "weight": 0.5}
    again = Training.from_dict(described)
    assert again.loss == UnknownLoss("Logistic", {"slope": 4.0})
    assert again.sampler == UnknownSampling("Free", {"negatives": 3, "weight": 0.5})
    assert again.to_dict() == described
    assert 'kind = "Free"' in CONFIG.to_toml()


@pytest.mark.parametrize(
    ("known", "words"),
    [({"sampler": Free()}, "unknown kind Logistic; pass an object"), ({"loss": Hinge()}, "unknown kind Free; pass")],
)
def test_training_again_asks_for_the_class(known, words):
    with pytest.raises(ArgumentError, match=words):
        train(DATA, replace(Training.from_dict(CONFIG.to_dict()), **known), device="cpu")


def test_fields_of_a_dataclass_can_be_changed_by_name():
    assert CONFIG.change({"sampler": {"negatives": 5}}).sampler == Free(negatives=5)
    assert CONFIG.change({"sampler": {"kind": "Uniform"}}).sampler == spherec.Uniform()
    with pytest.raises(ArgumentError, match=r"sampler\.negatives must be a whole number"):
        CONFIG.change({"sampler": {"negatives": 1.5}})
    with pytest.raises(ArgumentError, match="loss cannot be changed by name; pass an object"):
        CONFIG.change({"loss": {"slope": 2.0}})


@pytest.mark.parametrize("part", ["loss", "sampler"])
def test_an_object_without_the_methods_is_refused(part):
    with pytest.raises(ArgumentError, match=rf"^{part} must be .* or an object of your own subclass of spherec\."):
        Training(**{part: object()})


def test_a_name_of_ours_is_refused():
    class Uniform(Free):
        pass

    with pytest.raises(ArgumentError, match="another name"):
        Training(sampler=Uniform())


@dataclass(frozen=True)
class Reduced(Loss):
    """A loss that ends in a common mistake."""

    by: str

    def __call__(self, triplets):
        losses = (1 + triplets.positive - triplets.nearest()).clamp_min(0)
        return {"mean": losses.mean(), "matrix": triplets.negative, "number": 1.0, "detached": losses.detach()}[self.by]


@pytest.mark.parametrize(
    ("by", "got"),
    [("mean", r"\d\.\d"), ("matrix", r"shape \(\d+, 3\)"), ("number", r"1\.0"), ("detached", r"shape \(\d+\)")],
)
def test_a_loss_of_a_wrong_shape_is_named_at_the_first_step(by, got):
    with pytest.raises(ArgumentError, match=f"Reduced .*{got}"):
        train(DATA, replace(CONFIG, loss=Reduced(by)), device="cpu")


@dataclass(frozen=True)
class Wrong(Sampling):
    """Returns what `make` makes of the users."""

    negatives: int = 2
    make: object = None

    def build(self, train, device, *, initial_items):
        sampler = self

        class WrongSampler:
            def sample(self, users, positives, geometry, generator):
                return sampler.make(users)

        return WrongSampler()


def _zeros(*size, dtype=torch.int64):
    return torch.zeros(size, dtype=dtype)


@pytest.mark.parametrize(
    "make",
    [
        lambda users: _zeros(len(users), 2),
        lambda users: Negatives(_zeros(len(users)), _zeros(len(users), dtype=torch.bool)),
        lambda users: Negatives(_zeros(3, 2), _zeros(3, 2, dtype=torch.bool)),
        lambda users: Negatives(_zeros(len(users), 2), _zeros(len(users), 3, dtype=torch.bool)),
        lambda users: Negatives(_zeros(len(users), 2), _zeros(len(users), 2)),
        lambda users: Negatives(_zeros(len(users), 2), _zeros(len(users), 2, dtype=torch.bool), torch.zeros(2)),
    ],
)
def test_what_is_no_negatives_is_named_at_the_first_step(make):
    with pytest.raises(ArgumentError, match="sample of Wrong"):
        train(DATA, replace(CONFIG, sampler=Wrong(make=make)), device="cpu")


FEW = small(density=0.3)


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
    model = spherec.CML(dim=6, epochs=2, batch_size=32, device="cpu", **parts).fit(FEW, validation=0, progress=False)
    model.save(tmp_path / "m.spherec")
    loaded = spherec.load(tmp_path / "m.spherec", device="cpu")
    for items in (["i1"], ["i2", "i5", "i9"], ["i28", "i29"]):
        assert loaded.recommend_for(items, 30) == model.recommend_for(items, 30)
    assert loaded.recommend(list(FEW.user_ids), 9) == model.recommend(list(FEW.user_ids), 9)
    new = spherec.Interactions.from_pairs(["zoe", "zoe"], ["i3", "i8"])
    assert loaded.fold_in(new).recommend("zoe", 30) == model.fold_in(new).recommend("zoe", 30)
    loaded.save(tmp_path / "again.spherec")
    assert (tmp_path / "again.spherec").read_bytes() == (tmp_path / "m.spherec").read_bytes()


def test_training_goes_on_with_the_class(tmp_path):
    model = spherec.CML(dim=6, epochs=2, batch_size=32, device="cpu", sampler=Steep())
    model.fit(FEW, validation=0, progress=False).save(tmp_path / "m.spherec")
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
