"""Read the sources of documents, and render the pages among them that scripts make.

A slow server, disk or object store takes no slot from documents that can be worked on, and neither does a browser: a job that reads is
away, and holds a place of one stage at a time.
"""

from gristmill import jobs
from gristmill.ingest.stages import Stages
from gristmill.ingest.task import IndexTask
from gristmill.jobs import Activity
from gristmill.operations.source_factory import SourceFactory
from gristmill.sources import Original, UrlSource
from gristmill.sources.rendering import Renderer


def create_renderer(sources: SourceFactory, stages: Stages) -> Renderer:
    """The renderer of this worker. It has no state: all of them share the places of the stage."""
    return Renderer(stages.renders, sources.scratch, sources.rendering, allow_private=sources.allow_private)


async def read_source(task: IndexTask, renderer: Renderer, stages: Stages) -> Original:
    """The document's bytes."""
    if task.item.type == "note":
        return await task.source.read()
    requester = jobs.requester(task.job)
    with task.job.during(Activity.AWAY):
        if isinstance(task.source, UrlSource):
            rule = task.item.render or task.base.render
            return await renderer.read(task.source, rule, requester, stages.sources)
        async with stages.sources.place(requester):
            return await task.source.read()
