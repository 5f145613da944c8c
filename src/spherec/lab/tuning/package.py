"""Import of optuna, or an error that says how to install it. Only this file imports it."""

try:
    import optuna
    from sqlalchemy.exc import IntegrityError, SQLAlchemyError  # the database layer of optuna, installed with it
    from sqlalchemy.pool import NullPool
except ImportError as error:
    from spherec.errors import MissingPackageError

    raise MissingPackageError("tuning needs optuna; install it with: pip install 'spherec[tune]'") from error

if not hasattr(optuna.Trial, "set_constraint"):
    from spherec.errors import MissingPackageError

    raise MissingPackageError(
        f"tuning needs optuna 5 or newer, and {optuna.__version__} is installed; pip install --upgrade 'spherec[tune]'"
    )

__all__ = ["IntegrityError", "NullPool", "SQLAlchemyError", "optuna"]
