"""Gristmill: a durable knowledge base engine.

`gristmill.Client` and `gristmill.AsyncClient` are the clients of a server; they are imported when they are first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gristmill.client import AsyncClient, Client

__all__ = ["AsyncClient", "Client", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import a client on first use: most of what imports this package needs none."""
    if name not in ("AsyncClient", "Client"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gristmill import client

    return getattr(client, name)
