"""The promises, checked against the tables.

promise 1   nothing is stuck          every active item has exactly one living job; every deletion too; the counts of jobs are right
promise 2   nothing is half there     searchable chunks are all of one version
promise 3   nothing comes back        no chunk, content or blob outlives the last thing that used it

Checks only read. The reconciler (`reconcile.py`) repairs what the first promise finds broken.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gristmill import catalog, jobs
from gristmill.db import Tx
from gristmill.identity import LOCAL_ORG, OrgId
from gristmill.integrity import store
from gristmill.operations.queue import find_stuck_items

_LIMIT = 100
_LIMIT_BEFORE_ORG_FILTER = 10_000  # of all organisations, when the violations of one are wanted


@dataclass(frozen=True)
class InvariantViolation:
    """A promise that is broken for one subject, and what to do about it."""

    promise: str
    subject: str
    detail: str
    advice: str


@dataclass(frozen=True)
class _Check:
    promise: str
    find: Callable[[Tx, int], Awaitable[Sequence[Any]]]
    detail: str
    advice: str = "Nothing: the reconciler repairs it."
    has_organisation: bool = True  # whether its subjects belong to organisations


async def _stuck_ids(tx: Tx, limit: int) -> list[Any]:
    return [row.id for row in await find_stuck_items(tx, None, limit)]


async def _find_unanalysed(tx: Tx, limit: int) -> list[Any]:
    return [row.id for row in await store.find_unanalysed_items(tx, None, limit)]


async def _find_unremoved(tx: Tx, limit: int) -> list[Any]:
    return [row.id for row in await store.find_unremoved_roots(tx, None, limit)]


async def _find_unswapped(tx: Tx, limit: int) -> list[Any]:
    return [row.id for row in await catalog.find_unswapped(tx, None, limit)]


async def _find_unremoved_sets(tx: Tx, limit: int) -> list[Any]:
    return [row.id for row in await catalog.find_unremoved_sets(tx, None, limit)]


_CHECKS = (
    _Check("nothing_is_stuck", _stuck_ids, "No job will process this item."),
    _Check(
        "nothing_is_stuck", _find_unanalysed, "Some of its images are not described, and no job will do so."
    ),
    _Check(
        "nothing_is_stuck",
        store.find_items_with_two_jobs,
        "Two jobs process this item.",
        "Cancel one of them.",
    ),
    _Check("nothing_is_stuck", _find_unremoved, "The item is being deleted, and no job removes it."),
    _Check(
        "nothing_is_stuck",
        store.find_unremoved_bases,
        "The knowledge base is being deleted, and no job removes it.",
    ),
    _Check(
        "nothing_is_stuck",
        _find_unswapped,
        "The embedder of a base is being changed, and no job works on it.",
    ),
    _Check("nothing_is_stuck", _find_unremoved_sets, "A set of chunks is being removed, and no job does it."),
    _Check(
        "nothing_is_stuck", store.find_orphan_runs, "The connector's run is open, and no job works on it."
    ),
    _Check(
        "nothing_is_stuck",
        jobs.lanes_with_wrong_counts,
        "The counts of this queue are not those of its jobs.",
        has_organisation=False,
    ),
    _Check(
        "nothing_is_half_there",
        store.find_incomplete_items,
        "Its chunks are not those of one version.",
        "Re-index the item.",
    ),
    _Check(
        "nothing_is_half_there",
        store.find_outdated_sets,
        "A set of chunks that could take over lacks an item.",
        "Request the change of the embedder again.",
    ),
    _Check(
        "nothing_comes_back",
        store.find_leftover_sets,
        "The knowledge base is deleted, but chunks of it remain.",
        has_organisation=False,
    ),
    _Check(
        "nothing_comes_back",
        store.find_leftover_items,
        "The item is deleted, but chunks of it remain.",
        "Delete the base.",
    ),
    _Check(
        "nothing_comes_back",
        store.find_unused,
        "Nothing uses this content or blob.",
        "Nothing: it is never shown.",
        has_organisation=False,
    ),
)

PROMISES = tuple(dict.fromkeys(check.promise for check in _CHECKS))


async def find_violations(tx: Tx, org: OrgId | None = None) -> list[InvariantViolation]:
    """The violations: none, in a healthy system. With `org`, those of that organisation; the local organisation also gets
    those that belong to none."""
    violations: list[InvariantViolation] = []
    for check in _CHECKS:
        subjects = await check.find(tx, _LIMIT if org is None else _LIMIT_BEFORE_ORG_FILTER)
        if org is not None and check.has_organisation:
            subjects = await store.filter_by_organisation(tx, subjects, org)
        elif org not in (None, LOCAL_ORG):
            subjects = []
        violations += [
            InvariantViolation(check.promise, str(subject), check.detail, check.advice)
            for subject in subjects
        ]
    return violations
