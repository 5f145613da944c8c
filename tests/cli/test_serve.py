"""`spherec serve`: what is wrong is said in one sentence before anything listens."""

import socket

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from tests.recommender.models import model_of, small


@pytest.fixture
def model(tmp_path):
    model_of(small()).save(tmp_path / "model.spherec")
    (tmp_path / "items.csv").write_text("id,author\nx,y\n")
    (tmp_path / "keys").write_text("\n")
    return tmp_path / "model.spherec"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none.spherec",), "none.spherec"),
        (("model.spherec", "--index"), "model.usearch"),
        (("model.spherec", "--items", "items.csv"), "has none of the model's items"),
        (("model.spherec", "--api-key-file", "keys"), "has no key"),
    ],
)
def test_what_is_missing_or_does_not_fit_is_named(spherec, model, monkeypatch, words, said):
    monkeypatch.chdir(model.parent)
    done = spherec("serve", *words, "--port", 0)
    assert (done.code, said in done.err) == (2, True)


def test_a_port_in_use_is_named(spherec, model):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = spherec("serve", model, "--port", port)
    assert (done.code, f"cannot listen on 127.0.0.1:{port}" in done.err) == (2, True)


@pytest.mark.parametrize("absent", ["fastapi", "uvicorn", "prometheus_client"])
def test_a_missing_package_is_named_with_the_remedy(spherec, absent, hide):
    hide(absent, "spherec.serve")
    done = spherec("serve", "no-such-model.spherec")
    assert done.code == 2
    assert done.err.count("\n") == 1, done.err
    assert "pip install fastapi prometheus-client rapidfuzz scikit-learn uvicorn" in done.err
