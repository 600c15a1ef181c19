"""The handlers of jobs that export and import bases."""

from gristmill.db import Database
from gristmill.embedding import Embedders
from gristmill.ingest.export_base import BaseExporter
from gristmill.ingest.import_base import BaseImporter
from gristmill.ingest.offload import CpuOffload
from gristmill.jobs import Handler
from gristmill.operations.source_factory import SourceFactory
from gristmill.work import ExportBase, ImportBase


def portable_handlers(
    db: Database, embedders: Embedders, sources: SourceFactory, offload: CpuOffload
) -> dict[str, Handler]:
    """The handlers by kind of job."""
    return {
        ExportBase.kind: Handler(BaseExporter(db, sources).run),
        ImportBase.kind: Handler(BaseImporter(db, embedders, sources, offload).run),
    }
