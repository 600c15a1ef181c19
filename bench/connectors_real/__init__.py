"""Connectors against real servers, through changes and faults: `uv run python -m bench.connectors_real`."""
