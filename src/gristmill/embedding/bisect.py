"""Which of many texts is at fault: a batch that is refused is asked for again in halves.

One bad text among n costs about 2 log n further requests. What is about the provider and not about a text is not tried
again: it would be the same for each. What may pass is raised whole, for nothing is known of any text then.
"""

from collections.abc import Sequence

from gristmill.embedding.embedder import Embedder, TextRefused, Vectors
from gristmill.errors import Permanent


async def embed_each(embedder: Embedder, texts: Sequence[str]) -> list[Vectors | Permanent]:
    """For each text its vector, or why it has none; `Transient` is raised."""
    if not texts:
        return []
    try:
        return list(await embedder.embed_documents(texts))
    except TextRefused as error:
        if len(texts) == 1:
            return [error]
    except Permanent as error:
        return [error] * len(texts)
    half = len(texts) // 2
    return [*await embed_each(embedder, texts[:half]), *await embed_each(embedder, texts[half:])]
