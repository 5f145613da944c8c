"""A whole comparison in one call."""

from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from spherec.compare.contenders import default_models
from spherec.compare.study import Comparison, Study
from spherec.compare.table import Line, lines
from spherec.data.interactions import Interactions
from spherec.device import DeviceName, resolve
from spherec.errors import ArgumentError, TrainingError
from spherec.experiments.runner import Watch


def run(
    data: Interactions,
    models: Iterable[str] | None = None,
    *,
    folder: str | PathLike[str],
    test: Interactions | None = None,
    folds: int = 4,
    k: int = 50,
    trials: int = 10,
    validation: float = 0.05,
    seed: int = 0,
    device: DeviceName = "auto",
    workers: int | None = None,
    watch: Watch | None = None,
) -> list[Line]:
    """Compare models by name, our main presets and all peers if none are named: one line each, the best NDCG first.

    `folder` keeps what is done, so that nothing is run twice; what it holds of this study is in the lines, too. With
    `test`, that part is the one that is tested on, and there are no folds.
    """
    if not isinstance(data, Interactions):
        raise ArgumentError(f"data must be Interactions, got {type(data).__name__}; Interactions.from_frame makes some")
    if isinstance(models, str):
        raise ArgumentError(f"models must be a list of names, got {models!r}; give [{models!r}]")
    names = default_models() if models is None else models
    study = Study(tuple(names), folds=folds, k=k, trials=trials, validation=validation, seed=seed)
    comparison = Comparison(study, data, Path(folder), test=test)
    results = comparison.run(device=resolve(device), workers=workers, watch=watch)
    if comparison.failed:
        why = "; ".join(f"{model}: {error}" for model, error in comparison.failed.items())
        raise TrainingError(f"some models could not be fit ({why}); the others are recorded, ask again without those")
    return lines(results, comparison.folder)
