"""Compare models of spherec with their peers."""
