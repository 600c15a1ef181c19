"""Tags of items."""

from uuid import UUID

from gristmill.server.api.schemas.common import ApiModel


class JobAccepted(ApiModel):
    """The job whose `result` is the preview."""

    job_id: UUID


class TagOut(ApiModel):
    """A tag, and how many items have it."""

    tag: str
    items: int


class TagsOut(ApiModel):
    """The tags of a base, the most frequent first."""

    items: list[TagOut]


class TaggedOut(ApiModel):
    """The items whose tags changed."""

    item_ids: list[UUID]
