"""The hot loops, compiled for the CPU by numba. What they replace stays beside their callers: as oracle, for GPUs."""
