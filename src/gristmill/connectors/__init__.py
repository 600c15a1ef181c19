"""Who does: the tools of a team, followed. `connector.py` is the port, `sync.py` one run."""
