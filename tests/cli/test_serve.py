"""`spherec serve`: what is wrong is said in one sentence before anything listens."""

import socket

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from tests.recommender.models import model_of, small


@pytest.fixture
def model(tmp_path):
    model_of(small()).save(tmp_path / "model.spherec")
    return tmp_path / "model.spherec"


def test_a_missing_model_is_named(spherec, tmp_path):
    done = spherec("serve", tmp_path / "none.spherec", "--port", 0)
    assert (done.code, "none.spherec" in done.err) == (2, True)


def test_a_missing_index_is_named(spherec, model):
    done = spherec("serve", model, "--index", "--port", 0)
    assert (done.code, "model.usearch" in done.err) == (2, True)


def test_a_table_of_other_items_is_refused(spherec, model, tmp_path):
    (tmp_path / "items.csv").write_text("id,author\nx,y\n")
    done = spherec("serve", model, "--items", tmp_path / "items.csv", "--port", 0)
    assert (done.code, "has none of the model's items" in done.err) == (2, True)


def test_an_empty_key_file_is_refused(spherec, model, tmp_path):
    (tmp_path / "keys").write_text("\n")
    done = spherec("serve", model, "--api-key-file", tmp_path / "keys", "--port", 0)
    assert (done.code, "has no key" in done.err) == (2, True)


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
    assert "pip install 'spherec[serve]'" in done.err
