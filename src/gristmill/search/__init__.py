"""What is searchable: published chunks, and the way from a question to hits."""

from gristmill.search.query import Hit, Mode, search
from gristmill.search.rows import Chunk
from gristmill.search.store import ChunkRow, list_chunks

__all__ = ["Chunk", "ChunkRow", "Hit", "Mode", "list_chunks", "search"]
