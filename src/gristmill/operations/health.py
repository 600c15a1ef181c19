"""The promises, checked against the tables, and what start-up puts right.

promise 1   nothing is stuck          every active item has exactly one living job; every deletion too
promise 2   nothing is half there     searchable chunks are all of one version
promise 3   nothing comes back        no chunk, content or blob outlives what used it
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from gristmill import jobs
from gristmill.catalog import BaseId, ItemId
from gristmill.db import Database, Queries, Tx
from gristmill.jobs import NewJob
from gristmill.organisation import LOCAL, OrgId
from gristmill.work import DeleteBase, DeleteSubtree

queries = Queries(__package__ or "gristmill.operations")

_MOST = 100
_OF_ALL = 10_000  # of all organisations, when one asks
_CHUNK = 100  # deletions that one recovery job takes


@dataclass(frozen=True)
class Violation:
    """A promise that is broken for one thing, and what to do."""

    promise: str
    subject: str
    detail: str
    advice: str


_CHECKS = {
    "stuck": ("nothing_is_stuck", "No job will move this item on.", "None: the reconciler will."),
    "unanalysed": (
        "nothing_is_stuck",
        "Images of it wait, and no job describes them.",
        "None: the reconciler will.",
    ),
    "doubled": ("nothing_is_stuck", "Two jobs would move this item on.", "Cancel one of them."),
    "unremoved": (
        "nothing_is_stuck",
        "It is being deleted, and no job removes it.",
        "None: the reconciler will.",
    ),
    "unremoved_bases": (
        "nothing_is_stuck",
        "The base is being deleted, and no job removes it.",
        "None: the reconciler will.",
    ),
    "orphan_runs": (
        "nothing_is_stuck",
        "The run of a connector is open, and no job makes it.",
        "None: the reconciler will end it.",
    ),
    "half_there": ("nothing_is_half_there", "Its chunks are not those of one version.", "Re-index the item."),
    "left_behind": ("nothing_comes_back", "The item is gone, and chunks of it are not.", "Delete the base."),
    "unheld": ("nothing_comes_back", "Nothing uses this content or blob.", "None: it is never shown."),
}


PROMISES = tuple(dict.fromkeys(promise for promise, _, _ in _CHECKS.values()))


async def violations(tx: Tx, org: OrgId | None = None) -> list[Violation]:
    """What is broken: nothing, in a healthy system. With `org`, for what is that organisation's; what is nobody's is the
    local one's."""
    found: list[Violation] = []
    for name, (promise, detail, advice) in _CHECKS.items():
        parameters: dict[str, Any] = {"limit": _MOST if org is None else _OF_ALL}
        if name in ("stuck", "unremoved", "unanalysed"):
            parameters["base"] = None
        subjects = await queries.values(tx, name, **parameters)
        if org is not None and name != "unheld":
            subjects = await queries.values(tx, "of_organisation", ids=subjects, org=org)
        elif org not in (None, LOCAL):
            subjects = []
        found += [Violation(promise, str(subject), detail, advice) for subject in subjects]
    return found


async def stuck(tx: Tx, base_id: BaseId | None = None, limit: int = _MOST) -> list[ItemId]:
    """Active items without a living job."""
    return await queries.values(tx, "stuck", base=base_id, limit=limit)


@dataclass(frozen=True)
class _Unremoved:
    id: ItemId
    base_id: BaseId


async def recover_deletions(db: Database) -> int:
    """Queue the removal of what is marked as deleting without a job, in bounded portions; how many roots."""
    recovered = 0
    while True:
        async with db.transaction() as tx:
            found = await queries.many(tx, _Unremoved, "unremoved", base=None, limit=_CHUNK)
            roots: dict[BaseId, list[ItemId]] = {}
            for row in found:
                roots.setdefault(row.base_id, []).append(row.id)
            bases: list[UUID] = await queries.values(tx, "unremoved_bases", limit=_CHUNK)
            await jobs.enqueue(
                tx,
                *(NewJob(DeleteSubtree(base, tuple(ids)), lane=str(base)) for base, ids in roots.items()),
                *(NewJob(DeleteBase(BaseId(base)), lane=str(base)) for base in bases),
            )
        recovered += len(found) + len(bases)
        if len(found) < _CHUNK and len(bases) < _CHUNK:
            return recovered
