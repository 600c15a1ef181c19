"""A batch that is refused is halved until the text at fault stands alone."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gristmill.embedding.embedder import Embedder
from gristmill.errors import Permanent, WorkError


async def embed_each(embedder: Embedder, texts: Sequence[str]) -> list[NDArray[np.float32] | WorkError]:
    """For each text its vector, or why it can't have one; `Transient` when the embedder is down."""
    if not texts:
        return []
    try:
        return list(await embedder.embed_documents(texts))
    except Permanent as error:
        if len(texts) == 1:
            return [error]
        half = len(texts) // 2
        return [*await embed_each(embedder, texts[:half]), *await embed_each(embedder, texts[half:])]
