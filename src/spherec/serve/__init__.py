"""Serve a model over HTTP: JSON in, JSON out, and a page to look at it."""

from spherec.errors import MissingPackageError

try:
    from spherec.serve.app import create_app
    from spherec.serve.options import ServeOptions
    from spherec.serve.server import serve
except ModuleNotFoundError as error:
    raise MissingPackageError(
        "spherec serve needs more packages; install them with: "
        "pip install fastapi prometheus-client rapidfuzz scikit-learn uvicorn"
    ) from error

__all__ = ["ServeOptions", "create_app", "serve"]
