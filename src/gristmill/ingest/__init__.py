"""Who does: a document's way from its source to being searchable, and out again."""

from gristmill.ingest.convert import Converter
from gristmill.ingest.expand import Expander
from gristmill.ingest.images import ImageAnalyser
from gristmill.ingest.pipeline import Pipeline
from gristmill.ingest.reindex import Reindexer
from gristmill.ingest.remove import Remover
from gristmill.readers.pool import ReaderPool

__all__ = ["Converter", "Expander", "ImageAnalyser", "Pipeline", "ReaderPool", "Reindexer", "Remover"]
