"""Readiness, invariants and the reconciler."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from gristmill.server.api.schemas.common import ApiModel


class ViolationOut(ApiModel):
    """An invariant that one subject breaks."""

    promise: str
    subject: str
    detail: str
    advice: str


class Invariants(ApiModel):
    """The broken invariants: an empty list in a healthy system."""

    violations: list[ViolationOut]


class ReadyCheck(ApiModel):
    """One dependency of the process. Without a `required` one it can't serve requests."""

    name: Literal["database", "schema", "workers", "embedder", "index", "disk"]
    ok: bool
    why: str | None
    required: bool


class ReadyOut(ApiModel):
    """Whether the process can work. `degraded`: it serves requests, but some work has to wait."""

    status: Literal["ready", "degraded", "unavailable"]
    reasons: list[str]
    checks: list[ReadyCheck]


class ReconcilerPassOut(ApiModel):
    """What the reconciler repaired in its last pass; all null or empty before the first pass."""

    job_id: UUID | None
    finished_at: datetime | None
    thorough: bool | None
    damage: dict[str, int]
    unused: dict[str, int]


class ReconcilerJobOut(ApiModel):
    """The job that runs the pass."""

    job_id: UUID


class BaseStorageOut(ApiModel):
    """A base with the room it takes, in bytes; that of its chunks is its share of the table."""

    id: UUID
    name: str
    status: str
    embedder: str
    dimensions: int
    index_kind: str
    items: int
    chunks: int
    chunk_bytes: int
    index_bytes: int
    upload_bytes: int


class StorageOut(ApiModel):
    """The room that the installation takes, in bytes."""

    version: str
    database_bytes: int
    chunk_bytes: int
    index_bytes: int
    content_bytes: int
    uploads: int
    upload_bytes: int
    bases: list[BaseStorageOut]
