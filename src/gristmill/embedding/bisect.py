"""Find the bad text in a batch: a batch that the provider rejects is sent again in halves.

One bad text among n costs about 2 log n more requests. An error about the provider rather than a text is not retried
here, because every half would get the same error. A transient error is raised for the whole batch, because it says
nothing about any single text.
"""

from collections.abc import Sequence

from gristmill.embedding.embedder import BadAnswer, Embedder, TextRefused, Vectors
from gristmill.errors import Permanent


async def embed_each(embedder: Embedder, texts: Sequence[str]) -> list[Vectors | Permanent | BadAnswer]:
    """For each text its vector, or the error that explains why it has none. Raises all other `Transient` errors."""
    if not texts:
        return []
    try:
        return list(await embedder.embed_documents(texts))
    except (TextRefused, BadAnswer) as error:
        if len(texts) == 1:
            return [error]
        if error.code == "embedder_dimensions":  # the halves would have it too
            return [error] * len(texts)
    except Permanent as error:
        return [error] * len(texts)
    half = len(texts) // 2
    return [*await embed_each(embedder, texts[:half]), *await embed_each(embedder, texts[half:])]
