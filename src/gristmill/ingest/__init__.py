"""Who does: a document's way from its source to being searchable."""

from gristmill.ingest.pipeline import Pipeline

__all__ = ["Pipeline"]
