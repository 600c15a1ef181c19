"""`python -m gristmill` is the `gristmill` command."""

from gristmill.cli import main

main()
