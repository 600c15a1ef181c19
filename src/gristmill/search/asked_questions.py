"""What people have searched a base for, if its owner keeps that (the base's setting `questions`).

    () ── a search, if the setting is `keep` ──▶ kept ── the setting `off`, a deletion, the retention, too many ──▶ ()

Only the words are kept, not who asked. A question that is lost costs nothing: searches don't wait for locks of changes longer than
a moment, and fail for nothing here.
"""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import psycopg

from gristmill.catalog import Base, BaseId
from gristmill.db import Database, Tx
from gristmill.search.store import queries

MAX_QUESTIONS = 1000  # of a base
MAX_LENGTH = 500  # characters; a longer text is no question

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AskedQuestion:
    """A row of `asked_question`."""

    id: UUID
    question: str
    times: int
    best_score: float | None
    asked_at: datetime


async def keep_question(
    db: Database, bases: Sequence[Base], question: str, best_score: float | None = None
) -> None:
    """Keep a question of those of the bases whose owners want that."""
    keeping = [base.id for base in bases if base.keeps_questions]
    words = " ".join(question.split())
    if not keeping or not words or len(words) > MAX_LENGTH:
        return
    try:
        async with db.transaction() as tx:
            await queries.run(
                tx,
                "keep_question",
                bases=keeping,
                digest=hashlib.sha256(words.casefold().encode()).digest(),
                question=words,
                best_score=best_score,
                max=MAX_QUESTIONS,
            )
    except psycopg.Error as error:
        log.warning("can't keep a question", extra={"error": str(error)})


async def list_questions(
    tx: Tx, base_id: BaseId, limit: int, before: UUID | None = None
) -> list[AskedQuestion]:
    """The questions of a base, the latest first."""
    return await queries.many(tx, AskedQuestion, "list_questions", base=base_id, limit=limit, before=before)


async def delete_questions(tx: Tx, base_id: BaseId) -> int:
    """Forget the questions of a base; how many."""
    return await queries.run(tx, "delete_questions", base=base_id)


async def delete_old_questions(tx: Tx, retention: timedelta) -> int:
    """Forget questions that were asked longer ago than `retention`; how many."""
    return await queries.run(tx, "delete_old_questions", retention=retention)
