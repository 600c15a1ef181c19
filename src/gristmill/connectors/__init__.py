"""Connectors keep bases in step with the tools of a team. `port.py` is the interface, `sync.py` one run."""
