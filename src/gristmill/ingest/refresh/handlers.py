"""The handlers of the jobs that keep sources fresh."""

from gristmill.db import Database
from gristmill.ingest.crawl.crawler import SiteCrawler
from gristmill.ingest.refresh.containers import ContainerRefresher
from gristmill.ingest.refresh.documents import DocumentRefresher
from gristmill.ingest.refresh.due import DueFinder
from gristmill.ingest.stages import Stages
from gristmill.jobs import Handler, QueueLimits
from gristmill.operations.source_factory import SourceFactory
from gristmill.work import FindDue, RefreshContainer, RefreshDocuments


def refresh_handlers(
    db: Database,
    sources: SourceFactory,
    stages: Stages,
    limits: QueueLimits | None,
    crawler: SiteCrawler | None = None,
) -> dict[str, Handler]:
    """The handler of each kind of job."""
    return {
        FindDue.kind: Handler(DueFinder(db).find),
        RefreshDocuments.kind: Handler(DocumentRefresher(db, sources, stages, limits).refresh),
        RefreshContainer.kind: Handler(ContainerRefresher(db, sources, stages, limits, crawler).refresh),
    }
