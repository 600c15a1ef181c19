"""suggest_embedder: another built-in embedder for a base whose texts are in languages that its own does not know.

An embedder behind an endpoint doesn't say what it knows, and was chosen by someone who does: nothing is suggested then. Nor for
a base that is in a search engine, where the languages of its chunks are not counted.
"""

from collections.abc import Mapping

from gristmill.catalog import Base
from gristmill.db import Tx
from gristmill.embedding import Embedder, Embedders
from gristmill.errors import Invalid
from gristmill.search.samples import count_languages

MIN_SHARE = 0.2  # of a base's chunks, that the other embedder must know more than its own


async def suggest_embedder(tx: Tx, base: Base, embedders: Embedders) -> str | None:
    """The name of an embedder that knows more of a base's texts than its own; None if there is none."""
    try:
        current = await embedders.find(tx, base.embedder, base.org_id)
    except Invalid:
        return None
    if current.strengths is None:
        return None
    chunks = await count_languages(tx, base.chunk_set)
    other = embedders.for_languages(list(chunks))
    if _share(other, chunks) - _share(current, chunks) < MIN_SHARE:
        return None
    return other.name


def _share(embedder: Embedder, chunks: Mapping[str, int]) -> float:
    """The share of chunks in languages that an embedder knows."""
    strengths = embedder.strengths
    if strengths is None or not chunks:
        return 0.0
    known = sum(count for language, count in chunks.items() if language in strengths)
    return known / sum(chunks.values())
