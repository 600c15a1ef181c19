"""Embedding texts as vectors: the port, the local model, HTTP endpoints, and the registry of embedders."""

from gristmill.embedding.bisect import embed_each
from gristmill.embedding.embedder import BadAnswer, Embedder, EmbedderPaused, TextRefused, Vectors
from gristmill.embedding.local import LocalEmbedder
from gristmill.embedding.openai import OpenAIEmbedder
from gristmill.embedding.registry import Embedders, Origin
from gristmill.embedding.stored import StoredEmbedder, hold_embedder

__all__ = [
    "BadAnswer",
    "Embedder",
    "EmbedderPaused",
    "Embedders",
    "LocalEmbedder",
    "OpenAIEmbedder",
    "Origin",
    "StoredEmbedder",
    "TextRefused",
    "Vectors",
    "embed_each",
    "hold_embedder",
]
