"""One version of a model at a time: under threads, in copies and in pickles."""

import copy
import pickle
import threading
from itertools import pairwise

import pytest

import spherec
from spherec.data.interactions import Interactions
from spherec.errors import ArgumentError
from spherec.ranking.usearch import Hnsw, UsearchRanker
from tests.recommender.models import ITEMS, USERS, model_of, small

DATA = small()
NEW = Interactions.from_pairs(["u1", "u2", "new", "new"], ["i30", "i31", "i30", "i2"])
QUICK = {"dim": 6, "sampler": spherec.Uniform(2), "batch_size": 32, "epochs": 2, "device": "cpu"}


def answers(model):
    return [
        model.recommend(USERS, 50),
        model.recommend(USERS[:3], 4, only=ITEMS[:9], exclude=["i1"]),
        model.recommend_for(["i1", "i2"], 50),
        model.similar_items("i1", 50),
        model.similar_users("u1", 20),
    ]


def answer(question, model, path):
    """One of five questions, as something that can be compared bit by bit."""
    if question == "file":
        model.recommend_to_file(path, USERS[:5], 50)
        return path.read_text()
    ask = {
        "five": lambda: model.recommend(USERS[:5], 50),  # five users are rounded differently in one thread and in two
        "all": lambda: model.recommend(USERS, 50, exclude_seen=False),
        "new": lambda: model.recommend_for(["i1", "i2"], 50),
        "similar": lambda: model.similar_items("i1", 50),
    }[question]
    return tuple((name, tuple(column)) for name, column in ask().columns.items())


QUESTIONS = ("five", "all", "new", "similar", "file")


@pytest.mark.parametrize("fits", [6, pytest.param(200, marks=pytest.mark.slow)])
def test_every_list_belongs_to_one_version(fits, tmp_path, set_threads):
    """Eight readers, some of which begin during training, against all that changes a model."""
    set_threads(2)
    wide, index = Hnsw(width=50, exact_beyond=1.0), tmp_path / "i.usearch"
    model = spherec.CML(**QUICK).fit(DATA, validation=0, progress=False)
    versions, stop, answers_of = [], threading.Event(), {number: [] for number in range(8)}

    def note():
        versions.append({question: answer(question, model, tmp_path / "w.csv") for question in QUESTIONS})

    def read(number):
        while not stop.is_set():
            question = QUESTIONS[(len(answers_of[number]) + number) % len(QUESTIONS)]
            answers_of[number].append((question, answer(question, model, tmp_path / f"{number}.csv")))

    readers = [threading.Thread(target=read, args=(number,)) for number in answers_of]

    def start_another(*_):
        if unstarted := [reader for reader in readers if reader.ident is None]:
            unstarted[0].start()

    def fit(number):
        rows = Interactions.from_pairs(["u1", f"n{number}"], [f"new{number}", "i2"])
        model.partial_fit(rows, validation=0, progress=start_another)

    def swap(grown):
        model._current = grown._current  # as a server does that swaps models

    def reload(number):
        model.save(tmp_path / "m.spherec")
        swap(spherec.load(tmp_path / "m.spherec", mmap=number % 2 == 0, device="cpu"))

    others = (
        (lambda _: model.build_index(index, wide), lambda _: model.use_index(None), lambda _: model.use_index(index)),
        (reload, lambda _: model.build_index(config=wide)),
        (lambda number: swap(model.fold_in(Interactions.from_pairs([f"f{number}"] * 2, ["i1", "i2"]))),),
    )
    note()
    try:
        for number in range(fits):
            for change in (fit, *others[number % len(others)]):
                change(number)
                note()
        assert all(reader.ident is not None for reader in readers)
    finally:
        stop.set()
        for reader in readers:
            if reader.ident is not None:
                reader.join()
    assert sum(one["all"] != other["all"] for one, other in pairwise(versions)) >= fits, "they differ"
    for number, given in answers_of.items():
        last = 0
        for question, result in given:
            last = next((n for n in range(last, len(versions)) if versions[n][question] == result), None)
            assert last is not None, f"reader {number}: a list of {question!r} of no version"
    assert sum(map(len, answers_of.values())) >= fits


@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("index", [False, True])
def test_copies_answer_alike(again, index):
    model = model_of(DATA)
    if index:
        model.build_index(config=Hnsw(connectivity=2, expansion_add=2, width=1, exact_beyond=1.0))  # misses much
    before = answers(model)
    other = again(model)
    assert answers(other) == before
    assert other.config == model.config
    assert isinstance(other.ranker, UsearchRanker) == index
    other.partial_fit(NEW, validation=0, progress=False)
    assert (model.data.n_users, other.data.n_users) == (12, 13), "a copy is a model of its own"
    assert answers(model) == before


@pytest.mark.parametrize("index", [False, True])
def test_a_file_that_changes_does_not_reach_the_model(tmp_path, index):
    path = tmp_path / "m.spherec"
    model_of(DATA).save(path)
    if index:
        model_of(DATA).build_index(tmp_path / "m.usearch")
    model, mapped = (spherec.load(path, index=index, mmap=mmap, device="cpu") for mmap in (False, True))
    before = answers(model)
    assert answers(mapped) == before
    model_of(DATA, seed=7).save(path)  # atomically: what is mapped stays
    assert answers(mapped) == before
    other = path.read_bytes()
    for content in (other, bytes(len(other)), other[:100], b""):  # as `cp` and `truncate` do it
        for file in tmp_path.iterdir():
            file.write_bytes(content)
        assert answers(model) == before


@pytest.mark.parametrize("index", [False, True])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_vectors_that_are_no_numbers_are_refused(tmp_path, index, value):
    model = model_of(DATA)
    if index:
        model.build_index(config=Hnsw(exact_beyond=1.0))
    model.vectors.item_table[5] = value
    for ask in (
        lambda: model.recommend(USERS, 3, exclude_seen=False),
        lambda: model.recommend_to_file(tmp_path / "lists.csv", exclude_seen=False),
        lambda: model.recommend_for(["i5"]),
        lambda: model.similar_items("i5"),
        lambda: model.score("u1", "i5"),
        lambda: model.fold_in(Interactions.from_pairs(["new"], ["i5"])),
        lambda: model.partial_fit(NEW, validation=0, progress=False),
        lambda: model.save(tmp_path / "m.spherec"),
        lambda: spherec.export.write(tmp_path / "m.npz", model.vectors, DATA),
    ):
        with pytest.raises(spherec.SpherecError, match=r"NaN or infinity|the loss is (nan|inf)"):
            ask()
    with pytest.raises(ArgumentError, match="item vectors must be finite, got NaN or infinity in row 5"):
        model.save(tmp_path / "m.spherec")
    assert not list(tmp_path.iterdir())
