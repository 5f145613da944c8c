"""Of the test pairs nothing is seen before the end."""

from spherec.data.splits import Fold
from spherec.lab import comparison as comparison_module
from tests.lab.tiny import EXPERIMENT, fold, ran


class Sealed:
    """A test part that nobody may look into until it is opened."""

    def __init__(self, part):
        self.part = part

    def __getattr__(self, name):
        raise AssertionError(f"{name} of the test part was looked at")

    __len__ = __iter__ = __eq__ = __bool__ = lambda self, *_: self.__getattr__("something")
    __hash__ = None


def given_folds(monkeypatch, folds):
    monkeypatch.setattr("spherec.data.splits.k_fold", lambda *_, **__: folds)


def test_the_test_part_is_opened_by_the_evaluation_alone(records, monkeypatch):
    folds = [Fold(fold(index).train, Sealed(fold(index).test)) for index in range(EXPERIMENT.folds)]
    given_folds(monkeypatch, folds)
    evaluate, opened = comparison_module.evaluate, []

    def opening(model, train, test, **options):
        if isinstance(test, Sealed):
            opened.append(test)
            test = test.part
        return evaluate(model, train, test, **options)

    monkeypatch.setattr(comparison_module, "evaluate", opening)
    ran(records)
    assert len(opened) == EXPERIMENT.folds * len(EXPERIMENT.models), "once a run"
