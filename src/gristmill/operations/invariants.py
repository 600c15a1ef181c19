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
from gristmill.organisation import LOCAL_ORG, OrgId
from gristmill.work import DeleteBase, DeleteSubtree

queries = Queries(__package__ or "gristmill.operations")

_LIMIT = 100
_LIMIT_BEFORE_ORG_FILTER = 10_000  # of all organisations, when one asks
_BATCH_SIZE = 100  # deletions that one recovery job takes


@dataclass(frozen=True)
class InvariantViolation:
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


async def find_violations(tx: Tx, org: OrgId | None = None) -> list[InvariantViolation]:
    """What is broken: nothing, in a healthy system. With `org`, for what is that organisation's; what is nobody's is the
    local one's."""
    violations: list[InvariantViolation] = []
    for name, (promise, detail, advice) in _CHECKS.items():
        parameters: dict[str, Any] = {"limit": _LIMIT if org is None else _LIMIT_BEFORE_ORG_FILTER}
        if name in ("stuck", "unremoved", "unanalysed"):
            parameters["base"] = None
        subjects = await queries.values(tx, name, **parameters)
        if org is not None and name != "unheld":
            subjects = await queries.values(tx, "of_organisation", ids=subjects, org=org)
        elif org not in (None, LOCAL_ORG):
            subjects = []
        violations += [InvariantViolation(promise, str(subject), detail, advice) for subject in subjects]
    return violations


async def find_stuck_items(tx: Tx, base_id: BaseId | None = None, limit: int = _LIMIT) -> list[ItemId]:
    """Active items without a living job."""
    return await queries.values(tx, "stuck", base=base_id, limit=limit)


@dataclass(frozen=True)
class _UnremovedRoot:
    id: ItemId
    base_id: BaseId


async def recover_deletions(db: Database) -> int:
    """Queue the removal of what is marked as deleting without a job, in bounded portions; how many roots."""
    recovered = 0
    while True:
        async with db.transaction() as tx:
            unremoved = await queries.many(tx, _UnremovedRoot, "unremoved", base=None, limit=_BATCH_SIZE)
            roots: dict[BaseId, list[ItemId]] = {}
            for row in unremoved:
                roots.setdefault(row.base_id, []).append(row.id)
            bases: list[UUID] = await queries.values(tx, "unremoved_bases", limit=_BATCH_SIZE)
            await jobs.enqueue(
                tx,
                *(NewJob(DeleteSubtree(base, tuple(ids)), lane=str(base)) for base, ids in roots.items()),
                *(NewJob(DeleteBase(BaseId(base)), lane=str(base)) for base in bases),
            )
        recovered += len(unremoved) + len(bases)
        if len(unremoved) < _BATCH_SIZE and len(bases) < _BATCH_SIZE:
            return recovered
