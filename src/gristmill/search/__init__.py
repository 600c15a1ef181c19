"""What is searchable: published chunks, and the way from a question to hits."""

from gristmill.search.query import Hit, Mode, search
from gristmill.search.rows import Chunk
from gristmill.search.store import half_there

__all__ = ["Chunk", "Hit", "Mode", "half_there", "search"]
