"""embed: pieces to chunks, by the base's embedder."""

from collections.abc import Sequence

from gristmill.embedding import Embedder
from gristmill.ingest.chunk import Piece
from gristmill.search import Chunk


async def embed(embedder: Embedder, pieces: Sequence[Piece]) -> list[Chunk]:
    """The pieces with their vectors, in order."""
    vectors = await embedder.embed_documents([piece.text for piece in pieces])
    return [
        Chunk(piece.index, piece.text, piece.start, piece.end, piece.headings, vector)
        for piece, vector in zip(pieces, vectors, strict=True)
    ]
