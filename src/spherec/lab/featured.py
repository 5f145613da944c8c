"""A preset of spherec that learns from item features, in a comparison."""

from collections.abc import Mapping
from typing import Any

from spherec.data.features import Features
from spherec.data.interactions import Interactions
from spherec.data.splits import Fold
from spherec.errors import ArgumentError, quote
from spherec.geometry import DenseVectors
from spherec.lab.model import FitContext
from spherec.lab.ours import OurModel
from spherec.lab.settings import Settings
from spherec.lab.trial import FittedModel, raise_if_interrupted
from spherec.training import Training, train
from spherec.training.presets import PRESETS

FEATURED = "+features"
"""Ending of the name of a preset that learns from features."""


class FeaturedModel(OurModel):
    """A config that runs to its end, such as a preset's, with features of the items.

    It takes part in `compare(data, [FeaturedModel("accurate", PRESETS["accurate"].training, features), "ease"], …)`;
    its name in tables is "accurate+features".
    """

    def __init__(self, name: str, config: Training, features: Features) -> None:
        if not isinstance(features, Features):
            raise ArgumentError(f"features must be Features, got {quote(features)}; make them with read_features")
        if config.optimizer.schedule == "constant":
            able = (
                f"{one}{FEATURED}"
                for one, preset in PRESETS.items()
                if preset.training.optimizer.schedule != "constant"
            )
            raise ArgumentError(
                f"{name}{FEATURED} cannot be compared: its learning rate is constant, and models with features learn "
                f"to the end of a falling one; take {', '.join(able)}, or set its schedule to 'cosine'"
            )
        super().__init__(f"{name}{FEATURED}", config, {})
        self.features = features

    @property
    def fit_key(self) -> object:
        """The name: a fit without features is another one."""
        return self.name

    @property
    def fixed(self) -> Mapping[str, Any]:  # type: ignore[override]
        """The config and the features."""
        return {**super().fixed, "features": self.features.fingerprint}

    def check(self, train: Interactions) -> None:
        """Raise an error if the items of the data have no features."""
        self.features.align(train.item_ids)

    def fit_validated(self, part: Fold, settings: Settings, context: FitContext) -> FittedModel:
        """Train to the end."""
        return FittedModel(self.fit(part.train, settings, context))

    def fit(self, train_part: Interactions, settings: Settings, context: FitContext) -> DenseVectors:
        """Train with the features of the items."""
        config, features = self.configure(settings, context), self.features.align(train_part.item_ids)
        return raise_if_interrupted(train(train_part, config, features=features, device=context.device)).vectors
