"""Groups of tools and their members in the database.

Access lists name a group; who belongs to it is looked up with every request (`tool_groups_of` in the database). So a person who joins
or leaves a group changes a row here, no record, and needs no lock of a base.

    saved while …                     then …
    its digest is known               only the time is noted
    its members differ                the rows that differ are written, in the transaction that also saves the audiences
    it could not be resolved          it is not complete: it lets no one see anything. Its last members stay, to be compared with
    two transactions save it          the second waits at its row: groups are saved in the order of their keys
    no audience names it any more     it is deleted at the end of a run, or of a reading of permissions
    its connector is deleted          it goes too, unless bases keep the records: then it stays with its last members until these
                                      bases are gone
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from gristmill import jobs
from gristmill.catalog import BaseId
from gristmill.connectors.model import ConnectorId, ConnectorRow, GroupSummary
from gristmill.connectors.port import ToolGroup
from gristmill.connectors.store import queries
from gristmill.db import Database, Tx
from gristmill.jobs import Job

_MAX_NAME = 200


@dataclass(frozen=True)
class _KnownGroup:
    id: UUID
    key: str
    digest: bytes


async def save_groups(tx: Tx, row: ConnectorRow, groups: Iterable[ToolGroup]) -> None:
    """Save groups with their members as they are since `row` was read. A later answer stays."""
    by_key = {group.id: group for group in groups}
    if not by_key:
        return
    known = await queries.many(
        tx,
        _KnownGroup,
        "save_groups",
        connector=row.id,
        asked_at=row.read_at,
        keys=list(by_key),
        names=[(group.name or group.id)[:_MAX_NAME] for group in by_key.values()],
    )
    for earlier in known:
        group = by_key[earlier.key]
        if earlier.digest == group.digest:
            continue
        await queries.run(
            tx, "set_group_state", group=earlier.id, complete=group.complete, digest=group.digest
        )
        if group.complete:
            await queries.run(
                tx,
                "replace_group_members",
                group=earlier.id,
                emails=list(group.emails),
                users=list(group.users),
            )


async def find_unresolved_groups(tx: Tx, connector: ConnectorId) -> list[str]:
    """The names of groups that let no one see anything because their members could not be resolved."""
    return await queries.values(tx, "unresolved_groups", connector=connector)


async def find_groups(
    tx: Tx, connector: ConnectorId, *, limit: int, after: UUID | None = None
) -> list[GroupSummary]:
    """Groups of a connector's tool that access lists name."""
    return await queries.many(tx, GroupSummary, "groups", connector=connector, limit=limit, after=after)


async def delete_unused_groups(db: Database, job: Job, connector: ConnectorId) -> None:
    """Delete groups that no audience names any more, unless a base keeps records that name them. In a transaction of its own: whoever
    saves a group locks it before other rows, and whoever changes a connector after it."""
    async with db.transaction() as tx:
        await jobs.fence(tx, job)
        await delete_unused(tx, connector)


async def delete_unused(tx: Tx, connector: ConnectorId) -> None:
    """The same, within the caller's transaction, which must hold no other rows of connectors."""
    if ids := await queries.values(tx, "lock_unused_groups", connector=connector):
        await queries.run(tx, "delete_unused_groups", connector=connector, ids=ids)


async def keep_groups(tx: Tx, connector: ConnectorId, bases: Sequence[BaseId]) -> None:
    """Keep the groups of a connector for as long as one of these bases exists: it keeps records, but is fed no longer."""
    if bases:
        await queries.run(tx, "keep_groups", connector=connector, bases=list(bases))


async def release_groups(tx: Tx, connector: ConnectorId) -> None:
    """Before a connector is deleted: let the groups that bases need stay without it, with their members by address."""
    for statement in ("map_group_members", "drop_group_accounts", "release_groups"):
        await queries.run(tx, statement, connector=connector)


async def delete_released_groups(tx: Tx, limit: int) -> int:
    """Delete groups of deleted connectors that no base needs any more; how many."""
    return (await queries.values(tx, "delete_released_groups", limit=limit))[0]
