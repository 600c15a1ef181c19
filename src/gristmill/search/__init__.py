"""Search: the index of published chunks, and the path from a query to hits."""

from gristmill.search.asked_questions import (
    AskedQuestion,
    delete_old_questions,
    delete_questions,
    keep_question,
    list_questions,
)
from gristmill.search.binary_copy import Chunk
from gristmill.search.chunk_marks import ChunkMark, set_mark
from gristmill.search.conditions import Comparison, Condition, ConditionGroup
from gristmill.search.model import (
    Hit,
    HitContext,
    HitExplanation,
    Mode,
    SearchAnswer,
    SearchRequest,
    SkippedSearch,
    Target,
    WordCorrection,
)
from gristmill.search.passage_boxes import passage_boxes
from gristmill.search.relevance import DOUBTFUL_SCORE
from gristmill.search.rerank import HttpReranker, Reranker
from gristmill.search.scope import Filters, Scope
from gristmill.search.searcher import Searcher
from gristmill.search.store import ChunkRow, list_chunks
from gristmill.search.why_not import Reason, WhyNot, explain_missing

__all__ = [
    "DOUBTFUL_SCORE",
    "AskedQuestion",
    "Chunk",
    "ChunkMark",
    "ChunkRow",
    "Comparison",
    "Condition",
    "ConditionGroup",
    "Filters",
    "Hit",
    "HitContext",
    "HitExplanation",
    "HttpReranker",
    "Mode",
    "Reason",
    "Reranker",
    "Scope",
    "SearchAnswer",
    "SearchRequest",
    "Searcher",
    "SkippedSearch",
    "Target",
    "WhyNot",
    "WordCorrection",
    "delete_old_questions",
    "delete_questions",
    "explain_missing",
    "keep_question",
    "list_chunks",
    "list_questions",
    "passage_boxes",
    "set_mark",
]
