"""The Python client: asynchronous first, with a synchronous facade.

    async with AsyncClient("http://127.0.0.1:7373", key="gm_…") as mill:
        base = await mill.base_named("notes", create=True)
        added = await mill.add(base["id"], [{"type": "note", "content": "The wheel turns."}])
        await mill.wait(base["id"], [item["id"] for item in added["created"]])
        answer = await mill.search("wheel", [base["id"]])

Requests that may not have arrived, and those that are rejected for now (429, 502, 503, 504), are retried up to `retries` times.
Every change carries an `Idempotency-Key`, so that a retry does not repeat it. A final rejection is raised as `Refused` with the
server's code and message. `Client` has the same methods for programs without an event loop.
"""

from gristmill.client.async_client import AsyncClient
from gristmill.client.models import (
    CONTAINERS,
    ENDED,
    Added,
    Answer,
    Base,
    Hit,
    Item,
    Json,
    Mode,
    Problem,
    Progress,
    Refused,
)
from gristmill.client.sync_client import Client

__all__ = [
    "CONTAINERS",
    "ENDED",
    "Added",
    "Answer",
    "AsyncClient",
    "Base",
    "Client",
    "Hit",
    "Item",
    "Json",
    "Mode",
    "Problem",
    "Progress",
    "Refused",
]
