"""What is searchable: published chunks, and the way from a question to hits."""

from gristmill.search.hit import SearchRequest, HitContext, HitExplanation, Hit, Mode, Target
from gristmill.search.query import Searcher
from gristmill.search.rerank import HttpReranker, Reranker
from gristmill.search.rows import Chunk
from gristmill.search.scope import Filters, Scope
from gristmill.search.store import ChunkRow, list_chunks
from gristmill.search.whynot import Reason, WhyNot, explain_missing

__all__ = [
    "SearchRequest",
    "Chunk",
    "ChunkRow",
    "HitContext",
    "HitExplanation",
    "Filters",
    "Hit",
    "HttpReranker",
    "Mode",
    "Reason",
    "Reranker",
    "Scope",
    "Searcher",
    "Target",
    "WhyNot",
    "list_chunks",
    "explain_missing",
]
