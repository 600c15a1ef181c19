"""Embedding texts as vectors: the port, the local model, HTTP endpoints, and the registry of embedders."""

from gristmill.embedding.bisect import embed_each
from gristmill.embedding.embedder import BadAnswer, Embedder, EmbedderPaused, TextRefused, Vectors
from gristmill.embedding.local import LocalEmbedder
from gristmill.embedding.openai import OpenAIEmbedder
from gristmill.embedding.registry import Embedders

__all__ = [
    "BadAnswer",
    "Embedder",
    "EmbedderPaused",
    "Embedders",
    "LocalEmbedder",
    "OpenAIEmbedder",
    "TextRefused",
    "Vectors",
    "embed_each",
]
