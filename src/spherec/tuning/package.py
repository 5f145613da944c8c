"""Optuna, or one sentence on how to get it. Only this file imports it."""

try:
    import optuna
    from sqlalchemy.exc import SQLAlchemyError  # what optuna keeps studies with, and comes with
except ImportError as error:
    from spherec.errors import MissingPackageError

    raise MissingPackageError("tuning needs optuna; install it with: pip install 'spherec[tune]'") from error

__all__ = ["SQLAlchemyError", "optuna"]
