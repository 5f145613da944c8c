"""Tune settings with optuna."""
