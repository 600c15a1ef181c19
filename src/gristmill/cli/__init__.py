"""The `gristmill` command."""

from gristmill.cli.main import main

__all__ = ["main"]
