"""Of the test pairs nothing is seen before the end."""

from spherec.data.splits import Fold
from spherec.lab import RecordFile
from spherec.lab import comparison as comparison_module
from tests.lab.tiny import DATA, EXPERIMENT, fold, ran
from tests.sampling.checks import interactions


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


def others(part):
    """The same training pairs, with all the pairs that are nowhere else to test on."""
    rows = 1 - DATA.matrix.toarray()
    return Fold(part.train, interactions(rows))


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


def test_other_test_pairs_change_nothing_but_the_scores(records, tmp_path, monkeypatch):
    own = ran(records)
    given_folds(monkeypatch, [others(fold(index)) for index in range(EXPERIMENT.folds)])
    other = ran(RecordFile(tmp_path / "other.jsonl"))

    def chosen(results):
        return [
            (one.digest, one.settings, [(trial.settings, trial.epochs, trial.scores) for trial in one.trials])
            for one in results
        ]

    assert chosen(own) == chosen(other)
    assert [[look["metric"] for look in one.curve] for one in own] == [
        [look["metric"] for look in one.curve] for one in other
    ]
    assert all(one.scores != two.scores for one, two in zip(own, other, strict=True))
