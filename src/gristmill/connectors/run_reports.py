"""What a run reports besides its documents: how much there is to do, what is hidden, and why it could not do everything."""

from collections.abc import Sequence

from gristmill import jobs
from gristmill.connectors import audience_store, group_store, push, store
from gristmill.connectors.model import ConnectorRow, ConnectorRun
from gristmill.connectors.port import Checkpoints, Connector
from gristmill.connectors.transport import RateLimited
from gristmill.db import Tx
from gristmill.errors import SourceGone, Transient, Unreadable
from gristmill.jobs import Job

_MAX_LOGGED_PROBLEMS = 20


async def estimate_total(connector: Connector, checkpoints: Checkpoints) -> int | None:
    """About how many documents there are. It is only shown: a tool that refuses to count, or can't, is read all the same."""
    try:
        return await connector.estimate(checkpoints)
    except RateLimited:
        raise
    except (SourceGone, Unreadable, Transient):
        return None


async def describe_hidden_documents(tx: Tx, row: ConnectorRow) -> list[str]:
    """What is hidden because the tool did not say who may see it, or who is in a group."""
    audiences = [
        f"Who may see {audience.key} could not be found out: only admins see its documents ({audience.documents})."
        for audience in await audience_store.find_unresolved_audiences(tx, row.id)
    ]
    groups = [
        f"Who is in the group {name} could not be found out: documents that only this group may see are hidden."
        for name in await group_store.find_unresolved_groups(tx, row.id)
    ]
    return [*audiences, *groups]


async def report_problems(tx: Tx, row: ConnectorRow, run: ConnectorRun, problems: Sequence[str]) -> None:
    """Count problems as errors of a run, and write the first of them into its log."""
    if problems:
        await store.add_progress(tx, row.id, run.id, store.RunProgress(errors=len(problems)))
    for problem in problems[:_MAX_LOGGED_PROBLEMS]:
        await store.add_log_line(tx, run.id, problem, "warning")


async def end_without_base(tx: Tx, job: Job, row: ConnectorRow) -> None:
    """There is nowhere to store documents: read none, and end the run that was under way."""
    await push.forget(tx, row.id)
    if (run := await store.find_open_run(tx, row.id)) is not None:
        message = "The connector feeds no knowledge base any more. Give it one, then sync."
        await store.add_log_line(tx, run.id, message, "error")
        await store.end_run(tx, run.id, "failed", "connector_without_base", message)
    await jobs.complete(tx, job)


def mass_deletion_error(run: ConnectorRun) -> dict[str, str]:
    """The error of a run whose deletions were held back."""
    if not run.deletions_held:
        return {}
    message = (
        f"{run.deletions_held} documents seem to be gone from the tool. They were not deleted, because they are so many. "
        "To delete them, sync with allowDeletions."
    )
    return {"code": "mass_deletion_held", "message": message}
