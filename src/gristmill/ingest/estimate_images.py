"""What describing images will cost: their number, by the average length of descriptions, and by the price of the vision model."""

import asyncio
from dataclasses import dataclass
from uuid import UUID

from gristmill import contents
from gristmill.catalog import Base, ItemId
from gristmill.db import Database
from gristmill.embedding import Embedder
from gristmill.identity import scoped_digest
from gristmill.ingest.tokens import token_counter

_NEW_ITEM = ItemId(UUID(int=0))
_MAX_SAMPLE = 200  # descriptions of a base
_MIN_SAMPLE = 5
_MEASURED_DOUBT, _ASSUMED_DOUBT = 0.25, 0.6  # by what share the average may be off


@dataclass(frozen=True)
class ImageCosts:
    """Who describes images: its identity, what it takes for an image, and how many tokens a description has if a base has none yet."""

    analyst: str
    price: float = 0.0
    usual_tokens: int = 40


@dataclass(frozen=True)
class AverageDescription:
    """How many texts and tokens a description has on average, and by what share that may be off."""

    texts: float
    tokens: float
    doubt: float


async def average_description(
    db: Database, base: Base, embedder: Embedder, costs: ImageCosts
) -> AverageDescription:
    """The average of the descriptions that a base has; an assumption if it has few."""
    async with db.connection() as tx:
        texts = await contents.sample_descriptions(tx, base.id, costs.analyst, _MAX_SAMPLE)
    if len(texts) < _MIN_SAMPLE:
        return AverageDescription(1.0, float(costs.usual_tokens), _ASSUMED_DOUBT)
    tokens = sum(await asyncio.to_thread(token_counter(embedder.tokenizer).counts, texts))
    shown = sum(1 for text in texts if text.strip())
    return AverageDescription(shown / len(texts), tokens / len(texts), _MEASURED_DOUBT)


async def find_known_descriptions(
    db: Database, base: Base, costs: ImageCosts, hashes: list[str]
) -> dict[str, str]:
    """The descriptions of these images that a new document of the base would use again, by hash."""
    scoped = {scoped_digest(base.org_id, bytes.fromhex(digest)): digest for digest in hashes}
    async with db.connection() as tx:
        known = await contents.reusable_descriptions(
            tx, _NEW_ITEM, costs.analyst, list(scoped), base.asset_reuse
        )
    return {scoped[digest]: text for digest, text in known.items()}
