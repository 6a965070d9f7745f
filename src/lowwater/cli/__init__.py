"""The command `lowwater`."""

from lowwater.cli.app import app, main

__all__ = ["app", "main"]
