"""Jobs and the timeline of an item."""

from datetime import datetime
from typing import Literal, Self
from uuid import UUID

from gristmill import jobs
from gristmill.server.api.schemas.common import ApiModel, JsonObject, RequestModel

State = Literal["queued", "delayed", "running", "dead", "done", "cancelled", "dismissed"]


PRIORITY_NAMES = {0: "interactive", 1: "normal", 2: "bulk"}


class JobOut(ApiModel):
    """A job. `title` is the title of its item; `errors` has one entry per failed attempt, oldest first."""

    id: UUID
    kind: str
    state: State
    lane: str
    band: str
    subject: UUID | None
    title: str | None
    attempt: int
    max_attempts: int
    errors: list[JsonObject]
    result: JsonObject | None
    created_at: datetime
    started_at: datetime | None
    run_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def of(cls, job: jobs.JobRecord, title: str | None = None) -> Self:
        """Show `job`."""
        return cls.model_validate({**vars(job), "band": PRIORITY_NAMES[job.priority], "title": title})


class RetryAll(RequestModel):
    """Which dead jobs to retry: those of one base, or all."""

    base_id: UUID | None = None


class Retried(ApiModel):
    """How many dead jobs were queued again."""

    retried: int


class TimelineOut(ApiModel):
    """The time each stage took for the live version, and the jobs of the item."""

    version: int | None
    made: JsonObject
    jobs: list[JobOut]
