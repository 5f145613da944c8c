"""Serve a model over HTTP: JSON in, JSON out, and a page to look at it."""

from spherec.serve.app import create_app
from spherec.serve.options import ServeOptions
from spherec.serve.server import serve

__all__ = ["ServeOptions", "create_app", "serve"]
