"""Sparse matrices of scipy as tensors of torch, on any device."""

import warnings

import torch
from scipy import sparse
from torch import Tensor


def sparse_tensor(matrix: "sparse.csr_matrix", device: torch.device) -> Tensor:
    """Return a matrix as a sparse tensor of float32, by rows: on a CPU products are faster than by coordinates."""
    starts, columns, values = (torch.as_tensor(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    with warnings.catch_warnings():
        # Of a layout in beta, and in some versions of checks that are off.
        warnings.filterwarnings("ignore", message="Sparse (CSR|invariant)")
        return torch.sparse_csr_tensor(
            starts, columns, values, matrix.shape, dtype=torch.float32, device=device, check_invariants=False
        )
