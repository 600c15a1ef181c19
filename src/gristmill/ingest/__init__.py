"""Index documents: from their source to a searchable version, and remove them again. README.md has the picture."""

from gristmill.ingest.convert import Converter
from gristmill.ingest.expand import Expander
from gristmill.ingest.images import ImageAnalyser
from gristmill.ingest.pipeline import Pipeline
from gristmill.ingest.reindex import Reindexer
from gristmill.ingest.remove import Remover
from gristmill.readers.pool import ReaderPool

__all__ = ["Converter", "Expander", "ImageAnalyser", "Pipeline", "ReaderPool", "Reindexer", "Remover"]
