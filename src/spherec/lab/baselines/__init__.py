"""Compare models of spherec with their baselines."""
