"""The vector of a query, and whether a base's vectors can be compared with it."""

from gristmill.embedding import Embedder, TextRefused
from gristmill.errors import Invalid, Permanent, Transient
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
        message = f"{error.message} Search with mode `text` until it is mended."
        raise Transient(message, code=error.code) from error


def check_embedder(target: Target) -> None:
    """Raise if the embedder is not the one that made the base's vectors."""
    if target.embedder is not None and target.embedder.identity != target.base.embedder_identity:
        raise Invalid(
            f"The embedder {target.base.embedder!r} has changed since this base was indexed, so its vectors can't be "
            "compared. Search with mode `text`, or restore the embedder's settings.",
            code="embedder_changed",
        )
