"""Who does: a document's way from its source to being searchable, and out again."""

from gristmill.ingest.analyse import ImageAnalyser
from gristmill.ingest.convert import Converter
from gristmill.ingest.expand import Expander
from gristmill.ingest.pipeline import Pipeline
from gristmill.ingest.readers import ReaderPool
from gristmill.ingest.rebuild import Reindexer
from gristmill.ingest.remove import Remover

__all__ = ["ImageAnalyser", "Converter", "Expander", "Pipeline", "ReaderPool", "Reindexer", "Remover"]
