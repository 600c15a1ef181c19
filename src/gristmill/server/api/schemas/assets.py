"""Images and tables of an item."""

from typing import Self
from uuid import UUID

from gristmill.contents import LiveAsset
from gristmill.server.api.schemas.common import ApiModel, ErrorBody


class AssetOut(ApiModel):
    """An image or a table of the live version. `state` is null when it needs no description."""

    hash: str
    kind: str
    media_type: str
    size_bytes: int
    page: int | None
    start: int
    end: int
    caption: str
    state: str | None
    text: str | None
    error: ErrorBody | None

    @classmethod
    def of(cls, asset: LiveAsset) -> Self:
        """Show `asset`."""
        return cls(
            hash=asset.hash.hex(),
            kind=asset.kind,
            media_type=asset.media_type,
            size_bytes=asset.size,
            page=asset.page,
            start=asset.start,
            end=asset.end,
            caption=asset.caption,
            state="waiting" if asset.state == "asking" else asset.state,
            text=asset.text if asset.state == "described" else None,
            error=ErrorBody.from_columns(asset.error_code, asset.error_message),
        )


class AnalyseOut(ApiModel):
    """The job that describes the images; null when no image needs it."""

    job_id: UUID | None
