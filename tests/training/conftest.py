"""How tests of training run."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    """Small tensors gain nothing from more, and machines are shared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
