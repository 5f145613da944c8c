"""`spherec train`, as a newcomer and as a script would call it."""

import json
import signal
import stat
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from spherec import Interactions, load, read
from spherec.distributed import group as process_group
from spherec.errors import LostProcessError, TrainingError
from spherec.recommender import CML
from spherec.training import Crew
from spherec.training.step import Run

ROOT = Path(__file__).parents[2]
QUICK = ("--preset", "two-stage", "--device", "cpu", "--epochs", 3, "--dim", 8, "--set", "batch_size=64")


@pytest.fixture
def prepared(tmp_path):
    """30 users, 40 items with names, under ids that are words."""
    rows = (np.random.default_rng(0).random((30, 40)) < 0.3).astype(int)
    data = Interactions.from_matrix(rows, user_ids=[f"u{n}" for n in range(30)], item_ids=[f"i{n}" for n in range(40)])
    path = tmp_path / "data.npz"
    data.with_item_names({f"i{n}": f"Item {n}" for n in range(39)}).save(path)
    return path


@pytest.fixture
def train(spherec, prepared, tmp_path, monkeypatch):
    """Run `spherec train` on the prepared data, into model.spherec."""
    monkeypatch.setattr("spherec.recommender.progress._advised", set())  # as in a new process
    return lambda *options: spherec("train", prepared, "-o", tmp_path / "model.spherec", *QUICK, *options)


def model_at(path):
    """The arrays and the manifest, read with safetensors alone."""
    with safe_open(path, framework="numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["manifest"])  # noqa: SIM118


def vectors_at(path):
    arrays, _ = model_at(path)
    return arrays["user_vectors"].tobytes(), arrays["item_vectors"].tobytes()


def settings_of(path):
    return model_at(path)[1]["config"]


def files(folder):
    return sorted(file.name for file in folder.iterdir())


def test_it_says_how_it_went(train, tmp_path):
    done = train("--set", "validate_every=1")
    for said in ("all epochs done", "NDCG@50"):
        assert said in done.out
    assert done.out.count("★") == 1
    assert "all 40 items are candidates in every batch, so the sampler's beta has no effect; " in done.err
    assert f"{tmp_path / 'model.spherec'} holds the vectors of epoch" in done.err
    told = json.loads(train("--json", "--set", "validate_every=1", "--force").out)
    assert (told["output"], told["ended"]) == (str(tmp_path / "model.spherec"), "all epochs done")
    assert told["metric"] == "NDCG@50"
    metrics = [record["metric"] for record in told["history"]]
    assert told["best_epoch"] == 1 + metrics.index(max(metrics))
    assert json.loads(train("--json", "--validation", 0, "--force").out)["best_epoch"] is None


def test_settings_are_those_of_preset_file_set_and_flags_in_this_order(train, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text(
        'covariance = 0.5\nseed = 3\n[sampler]\nkind = "Popularity"\nbeta = 0.1\nnegatives = 2\nshared = false\n'
    )
    chosen = ("--set", "sampler.beta=0.3", "--set", "sampler.negatives=4", "--set", "seed=4")
    done = train(
        "--preset",
        "fast",
        "--config",
        config,
        *chosen,
        "--set",
        "sampler.negatives=6",
        "--set",
        "optimizer.learning_rate=0.02",
    )
    assert done.code == 0, done.err
    settings = settings_of(tmp_path / "model.spherec")
    assert settings["sampler"] == {"kind": "Popularity", "negatives": 6, "beta": 0.3, "shared": False}
    assert (settings["covariance"], settings["seed"]) == (0.5, 4)
    assert settings["optimizer"]["learning_rate"] == 0.02
    assert (settings["dim"], settings["batch_size"], settings["epochs"]) == (8, 64, 3)


def test_a_raw_file_is_read_as_told(spherec, ratings, tmp_path):
    columns = ("--user-column", "who", "--item-column", "what", "--value-column", "stars", "--min-value", 4)
    words = ("-o", tmp_path / "m.npz", *QUICK, "--validation", 0, "--set", "sampler.negatives=1")
    done = spherec("train", ratings, *columns, *words)
    assert done.code == 0, done.err
    assert f"try it: spherec recommend {tmp_path}/m.npz ann" in done.err
    assert model_at(tmp_path / "m.npz")[0]["user_vectors"].shape == (2, 8)


BAD = {
    "unknown setting": (("--set", "dims=3"), ["dims is not a field", "did you mean 'dim'?"]),
    "no value": (("--set", "dim"), ["NAME=VALUE", "'dim'"]),
    "out of range": (("--dim", 1), ["dim must be", "got 1"]),
    "no config": (("--config", "no-such.toml"), ["cannot read no-such.toml", "No such file"]),
    "config is a folder": (("--config", "."), ["is a folder"]),
    "broken config": (("--config", "{bad}"), ["bad.toml is not TOML", "correct it"]),
    "validation of everything": (("--validation", 1), ["share between 0 and 1", "got 1"]),
    "nothing to resume": (("--resume",), ["--resume needs", "model.spherec.checkpoint", "does not exist"]),
    "more room than there is": (("--dim", 10**16), ["memory"]),
    "loss that is no number": (
        ("--set", "spread_out=1e300"),
        ["the loss is nan in epoch 1"],
    ),
}


@pytest.mark.parametrize(("options", "words"), BAD.values(), ids=BAD)
def test_what_cannot_be_is_one_sentence_and_leaves_nothing_behind(train, prepared, tmp_path, options, words):
    bad = tmp_path / "bad.toml"
    bad.write_text("dim = = 3")
    before = files(tmp_path)
    done = train(*(str(option).format(bad=bad, data=prepared) for option in options))
    assert done.code == 2
    assert done.out == ""
    *advice, line = [line for line in done.err.splitlines() if line.strip()]
    assert line.startswith("error: ")
    assert all("candidates in every batch" in one or "(--preset accurate) had" in one for one in advice)
    for word in words:
        assert word in line
    assert files(tmp_path) == before


def test_a_run_that_goes_on_where_memory_is_short_keeps_what_it_came_from(train, tmp_path, monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes.")

    monkeypatch.setattr("spherec.recommender.cml.train", fails)
    monkeypatch.setattr("spherec.cli.train.count_epochs", lambda _: 3)
    checkpoint = tmp_path / "model.spherec.checkpoint"
    checkpoint.write_text("hours of work")
    done = train("--resume")
    assert done.code == 2
    assert "not enough memory" in done.err
    assert checkpoint.read_text() == "hours of work"


@pytest.mark.parametrize("output", ["no/such/folder/m.npz", ".", "data.npz"])
def test_an_output_that_cannot_or_must_not_be_is_refused(spherec, prepared, tmp_path, output):
    before = prepared.read_bytes()
    done = spherec("train", prepared, "-o", tmp_path / output, *QUICK)
    assert done.code == 2
    assert files(tmp_path) == ["data.npz"]
    assert prepared.read_bytes() == before


def test_a_leftover_checkpoint_is_not_overwritten(train, tmp_path):
    left = tmp_path / "model.spherec.checkpoint"
    left.write_bytes(b"precious")
    done = train()
    assert done.code == 2
    assert "--resume, or remove it" in done.err
    assert left.read_bytes() == b"precious"
    assert "damaged" in train("--resume").err
    assert files(tmp_path) == ["data.npz", "model.spherec.checkpoint"]


def test_a_run_that_goes_wrong_leaves_no_part_of_its_checkpoint(train, tmp_path, monkeypatch):
    def fail(*_, files, **__):
        for end in ("", ".0-of-2.592c3c57", ".1-of-2.12345678"):
            checkpoint = files.checkpoint
            checkpoint.with_name(f"{checkpoint.name}{end}").touch()
        raise TrainingError("the loss is nan")

    monkeypatch.setattr(CML, "fit", fail)
    assert train().code == 2
    assert files(tmp_path) == ["data.npz"]


def test_an_error_is_printed_before_a_signal_of_torchrun_ends_the_process(train, monkeypatch):
    def fail(*_, **__):
        raise LostProcessError("another process is gone")

    def be_slow():
        signal.raise_signal(signal.SIGTERM)  # which torchrun sends to the processes that are left
        return True

    monkeypatch.setattr(CML, "fit", fail)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "run")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr("spherec.cli.train.join", lambda _: Crew(torch.device("cpu")))
    monkeypatch.setattr(process_group, "is_first_to_fail", be_slow)
    done = train()
    assert (done.code, done.err) == (2, "error: another process is gone\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_the_run_with_a_model_and_a_checkpoint(number, train, spherec, prepared, tmp_path, monkeypatch):
    options = ("--set", "validate_every=1")
    steps = iter(range(1, 99))
    step = Run.step

    def at_step(self, *batch):
        if next(steps) == 8:  # of 6 an epoch
            signal.raise_signal(number)
        return step(self, *batch)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "step", at_step)
        done = train(*options)
    assert done.code == 128 + number
    assert "holds the vectors of epoch 1, the best of 1; the run was interrupted" in done.err
    assert f"model.spherec.checkpoint holds the run; continue it with: spherec train {prepared}" in done.err
    assert signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)
    assert stat.S_IMODE((tmp_path / "model.spherec.checkpoint").stat().st_mode) == 0o600
    done = train(*options, "--resume")
    assert done.code == 0
    assert "continuing in epoch 2 from" in done.err
    assert "the run is finished" in done.err
    resumed = vectors_at(tmp_path / "model.spherec")
    (tmp_path / "model.spherec").unlink()
    assert train(*options).code == 0
    assert vectors_at(tmp_path / "model.spherec") == resumed


@pytest.mark.parametrize(("option", "is_weighed"), [((), True), (("--weigh",), True), (("--no-weigh",), False)])
def test_a_prepared_file_is_trained_with_its_weights_or_without(spherec, tmp_path, option, is_weighed):
    rows = [f"u{number % 7},i{number % 11},{1 + number * number}" for number in range(60)]
    (tmp_path / "plays.csv").write_text("\n".join(["user,item,plays", *rows]) + "\n")
    given, prepared = (tmp_path / "plays.csv", "--value-column", "plays"), tmp_path / "plays.npz"
    assert spherec("data", "prepare", *given, "--weigh", "-o", prepared).code == 0
    done = spherec("train", prepared, *option, "-o", tmp_path / "m.spherec", *QUICK)
    assert done.code == 0, done.err
    assert (load(tmp_path / "m.spherec").data.weights is not None) == is_weighed
    assert spherec("data", "prepare", prepared, *option, "--partitions", "2", "-o", tmp_path / "p").code == 0
    assert (read(tmp_path / "p").weights is not None) == is_weighed
