"""What all tests share."""

import gc
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

from spherec.errors import MissingPackageError

# Before torch is imported: its operations are tiny here, and threads that wait for each other cost more than they give.
os.environ["OMP_NUM_THREADS"] = "1"

# Other examples at each run find more; the same ones in continuous integration keep it from failing by chance.
settings.register_profile("default", deadline=None, max_examples=60, derandomize="CI" in os.environ)
settings.load_profile("default")


# nohup and cron ignore signals that tests send, and processes would inherit that; a handler they do not inherit.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)  # this process goes on, as nohup wants it

# A machine with a GPU may have torch, numba, Triton, SciPy and hypothesis, but none of these: their tests are skipped.
MAY_BE_MISSING = {"implicit", "matplotlib", "optuna", "pandas", "polars", "pydantic", "ranx", "usearch"}
MAY_BE_MISSING |= {"fastapi", "httpx", "lenskit", "prometheus_client", "rectools", "starlette", "uvicorn"}
collect_ignore = ["data/read"] if find_spec("polars") is None else []  # its conftest imports polars


class SkippedIfPackagesAreMissing(pytest.Module):
    """A test file that is skipped if what it imports needs a package that is not installed."""

    def _getobj(self):
        try:
            return super()._getobj()
        except self.CollectError as error:
            cause = error.__cause__
            while cause is not None:
                name = (getattr(cause, "name", None) or "").split(".")[0]
                if isinstance(cause, MissingPackageError) or name in MAY_BE_MISSING:
                    pytest.skip(f"a package is missing: {cause}", allow_module_level=True)
                cause = cause.__cause__ or cause.__context__
            raise


def pytest_pycollect_makemodule(module_path, parent):
    return SkippedIfPackagesAreMissing.from_parent(parent, path=module_path)


def pytest_collection_finish():
    """Keep what is imported out of later collections of garbage: each would walk through millions of objects."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    gc.unfreeze()  # so that nothing is left when the interpreter ends, which some packages complain about


@pytest.fixture
def hide(monkeypatch):
    """Make a package look as if it were not installed to the modules named, which are then imported once more."""

    def hide(package: str, *modules: str) -> None:
        again = tuple(f"{name}." for name in (package, *modules))
        for module in [module for module in sys.modules if f"{module}.".startswith(again)]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, package, None)

    return hide


@pytest.fixture
def set_threads():
    """Set how many threads torch has, until the test ends."""
    import torch

    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the real data sets; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("SPHEREC_SHARED", Path(__file__).parents[2] / "shared"))
    if not folder.is_dir():
        pytest.skip(f"the real data sets are not at {folder}; set SPHEREC_SHARED")
    return folder
