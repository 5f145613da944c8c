"""The version, readable without an installed package."""

__version__ = "0.1.0"
