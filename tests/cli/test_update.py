"""`spherec update` and `spherec remove`, as a job of every night calls them."""

from contextlib import closing

import numpy as np
import pytest

from spherec import load
from spherec.data.event_store import Event, EventStore

RANDOM = np.random.default_rng(0)
PAIRS = sorted({(f"u{user}", f"i{(user + 4 * step) % 28}") for user in range(40) for step in RANDOM.choice(7, 5)})
SETTINGS = ("--dim", "8", "--epochs", "9", "--set", "batch_size=32", "--device", "cpu")


def write(path, pairs, columns="user,item"):
    path.write_text("\n".join([columns, *(",".join(map(str, pair)) for pair in pairs)]) + "\n")
    return path


@pytest.fixture
def model(spherec, tmp_path):
    events = write(tmp_path / "events.csv", PAIRS)
    assert spherec("train", events, "-o", tmp_path / "m.spherec", *SETTINGS).code == 0
    return tmp_path / "m.spherec"


def test_an_update_takes_in_the_day_and_again_has_nothing_to_do(spherec, model, tmp_path):
    day = write(tmp_path / "day.csv", [("u1", "new"), ("u2", "new"), ("zoe", "i1"), ("zoe", "i5"), PAIRS[0]])
    done = spherec("update", model, day, "-o", model, "--force", "--device", "cpu")
    assert done.code == 0, done.err
    assert "1 new users, 1 new items, 4 new pairs" in done.out
    first = model.read_bytes()
    assert len(load(model, device="cpu").recommend("zoe", 5)) == 5
    again = spherec("update", model, day, "-o", model, "--force", "--device", "cpu")
    assert (again.code, model.read_bytes()) == (0, first)
    assert "nothing new in these interactions" in again.err
    assert not spherec("update", model, write(tmp_path / "empty.csv", []), "-o", tmp_path / "e.spherec").code


def test_events_of_a_server_are_learned_once(spherec, model, tmp_path):
    with closing(EventStore(tmp_path / "events.db")) as store:
        store.add([Event("u1", "new", "buy", 1e9), Event("u1", "new", "view", 2e9), Event("zoe", "i1", "view", 1e9)])
        store.add([Event("joe", "i2", "buy", 1e9), Event("joe", "i2", "refund", 2e9)])
        kinds = ("--event-weights", "view=1,buy=9", "--cancels", "refund=buy")
        for said in ("1 new users, 1 new items, 2 new pairs", "not read before"):
            done = spherec("update", model, tmp_path / "events.db", "-o", model, "--force", "--device", "cpu", *kinds)
            assert (done.code, said in done.out + done.err) == (0, True), done.err
        store.add([Event("joe", "i3", None, 1e9)])
        done = spherec("update", model, f"sqlite:///{tmp_path}/events.db", "-o", model, "--force", "--device", "cpu")
        assert "1 new users, 0 new items, 1 new pairs" in done.out, done.err
    assert "--event-weights" in spherec("update", model, model, "-o", model, "--force", *kinds).refusal()


def test_a_gate_keeps_the_model_that_is_there(spherec, model, tmp_path, monkeypatch):
    day = write(tmp_path / "day.csv", [(f"u{n}", f"i{(n + 1) % 28}") for n in range(40)])
    before, values = model.read_bytes(), iter([0.5, 0.4])
    monkeypatch.setattr("spherec.recommender.gate.Validation.__call__", lambda *_: next(values))
    done = spherec("update", model, day, "-o", model, "--force", "--gate", 0.1, "--device", "cpu")
    assert "from 0.5000 to 0.4000" in done.err.splitlines()[-1]
    assert (done.code, model.read_bytes()) == (2, before)
    values = iter([0.5, 0.46])
    monkeypatch.setattr("spherec.recommender.gate.Validation.__call__", lambda *_: next(values))
    assert spherec("update", model, day, "-o", model, "--force", "--gate", 0.1, "--device", "cpu").code == 0


def test_ids_are_read_as_the_model_has_them(spherec, tmp_path):
    events = write(tmp_path / "events.csv", [(int(user[1:]), int(item[1:])) for user, item in PAIRS])
    model = tmp_path / "m.spherec"
    spherec("train", events, "-o", model, *SETTINGS)
    day = write(tmp_path / "day.csv", [(1, 99), (77, 3)])
    assert spherec("update", model, day, "-o", model, "--force", "--device", "cpu").code == 0
    assert load(model, device="cpu").data.n_users == 41


def test_users_and_items_are_removed(spherec, model, tmp_path):
    (tmp_path / "gone.txt").write_text("u1\nu2\nnobody\n")
    done = spherec("remove", model, "--users", f"@{tmp_path}/gone.txt", "--items", "i3", "-o", model, "--force")
    assert "'nobody'" in done.refusal()
    done = spherec(
        "remove", model, "--users", f"@{tmp_path}/gone.txt", "--items", "i3", "-o", model, "--force", "--skip-unknown"
    )
    assert done.code == 0, done.err
    assert "1 of 3 ids are not in the model" in done.err
    left = load(model, device="cpu").data
    assert not {"u1", "u2"} & set(left.user_ids)
    assert "i3" not in left.item_ids
    assert "38 users, 27 items" in done.out


BAD = {
    "nobody to remove": (("remove",), "--users"),
    "no features": (("update", "day.csv", "--item-features", "day.csv"), "without item features"),
    "a gate beyond 1": (("update", "day.csv", "--gate", 3), "gate"),
}


@pytest.mark.parametrize(("words", "told"), BAD.values(), ids=BAD)
def test_what_cannot_be_is_one_sentence(spherec, model, tmp_path, monkeypatch, words, told):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "day.csv", [("u1", "new")])
    done = spherec(words[0], model, *words[1:], "-o", tmp_path / "n.spherec")
    assert told in done.err
    assert (done.code, (tmp_path / "n.spherec").exists()) == (2, False)
