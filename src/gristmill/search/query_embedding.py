"""The vector of a query, and whether a base's vectors can be compared with it."""

from gristmill.embedding import Embedder, TextRefused
from gristmill.errors import GristmillError, Invalid, Permanent, Transient
from gristmill.search import store
from gristmill.search.model import Target


async def embed_query(embedder: Embedder, query: str) -> store.Vector:
    """A query that the embedder refuses is the caller's to change; any other error is the embedder's, not theirs."""
    try:
        return await embedder.embed_query(query)
    except TextRefused:
        raise
    except Permanent as error:
        if not error.code.startswith("embedder_"):
            raise
        message = f"{error.message} Search with mode `text` until it works again."
        raise Transient(message, code=error.code) from error


def find_embedder_error(target: Target) -> GristmillError | None:
    """Why the vectors of a base can't be searched at all: the embedder is missing, or not the one that made them."""
    if target.embedder is not None and target.embedder.identity != target.base.embedder_identity:
        return Invalid(
            f"The embedder {target.base.embedder!r} has changed since this base was indexed, so its vectors can't be "
            "compared. Search with mode `text`, or restore the embedder's settings.",
            code="embedder_changed",
        )
    return target.embedder_error
