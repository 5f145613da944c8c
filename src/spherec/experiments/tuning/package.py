"""Optuna, or one sentence on how to get it. Only this file imports it."""

try:
    import optuna
    from sqlalchemy.exc import SQLAlchemyError  # what optuna keeps studies with, and comes with
except ImportError as error:
    from spherec.errors import MissingPackageError

    raise MissingPackageError("tuning needs optuna; install it with: pip install 'spherec[tune]'") from error

if not hasattr(optuna.Trial, "set_constraint"):
    from spherec.errors import MissingPackageError

    raise MissingPackageError(
        f"tuning needs optuna 5 or newer, and {optuna.__version__} is installed; pip install --upgrade 'spherec[tune]'"
    )

__all__ = ["SQLAlchemyError", "optuna"]
