"""When sources are checked, whether folders are watched, and what is left out of listings."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import StringConstraints

from gristmill.catalog.exclusions import Exclusion
from gristmill.server.api.schemas.common import ApiModel, ErrorBody, RequestModel


class RefreshIn(RequestModel):
    """When sources are checked for changes: `every` an interval such as 30m, 12h, 1d or 2w (`never` for not at all), or at the times
    of a `cron` expression in UTC."""

    every: Annotated[str, StringConstraints(max_length=20)] | None = None
    cron: Annotated[str, StringConstraints(max_length=200)] | None = None

    def to_rule(self) -> dict[str, Any]:
        """The rule as it is stored."""
        return self.model_dump(exclude_none=True)


class RefreshOut(ApiModel):
    """When sources are checked: `every` an interval, or at the times of `cron`."""

    every: str | None = None
    cron: str | None = None

    @classmethod
    def of(cls, rule: Mapping[str, Any] | None) -> Self | None:
        """Show a rule; None for none, and for one that says never."""
        return None if rule is None or rule.get("every") == "never" else cls(**rule)


class WatchOut(ApiModel):
    """Whether a folder is watched: as `wanted` (null: if that is cheap), and what happens. If it is not watched, the error says
    why."""

    wanted: bool | None
    state: Literal["waiting", "watching", "unavailable", "off"]
    error: ErrorBody | None


class FreshnessOut(ApiModel):
    """How an item is kept fresh: whose rule applies, when its source was checked last and is checked next, after how many checks in a
    row without a change, and the error of the last one."""

    refresh_from: Literal["item", "container", "base"] | None
    next_check_at: datetime | None
    checked_at: datetime | None
    unchanged_checks: int
    error: ErrorBody | None
    watch: WatchOut | None

    @classmethod
    def of(cls, freshness: Mapping[str, Any] | None) -> Self | None:
        """Show how an item is kept fresh; None if it has no source that could be checked."""
        if freshness is None:
            return None
        watch = None
        if freshness["watch_state"] is not None:
            watch = WatchOut(
                wanted=freshness["watch"],
                state=freshness["watch_state"],
                error=ErrorBody.from_columns(freshness["watch_code"], freshness["watch_reason"]),
            )
        return cls(
            refresh_from=freshness["origin"],
            next_check_at=freshness["next_at"],
            checked_at=freshness["checked_at"],
            unchanged_checks=max(0, freshness["unchanged"] or 0),
            error=ErrorBody.from_columns(freshness["error_code"], freshness["error_message"]),
            watch=watch,
        )


class ExclusionOut(ApiModel):
    """A source that someone deleted: the listings of `containerId` leave it out. `source` is a path, an address or the id of a
    record; that of a folder covers everything below it."""

    id: UUID
    container_id: UUID
    type: str
    source: str
    title: str
    created_at: datetime

    @classmethod
    def of(cls, exclusion: Exclusion) -> Self:
        """Show `exclusion`."""
        return cls(
            id=exclusion.id,
            container_id=exclusion.root_id,
            type=exclusion.type,
            source=exclusion.source_key,
            title=exclusion.title,
            created_at=exclusion.created_at,
        )


class TakenBack(ApiModel):
    """How many exclusions were removed."""

    removed: int
