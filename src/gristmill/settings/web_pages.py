"""How web sites are crawled, and pages rendered."""

from datetime import timedelta
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings

from gristmill.settings.services import Duration


class WebPageSettings(BaseSettings):
    """The settings of crawls and of the browser that renders pages."""

    crawl_delay: Duration = Field(
        default=timedelta(milliseconds=250),
        description="Shortest time between two requests of crawls to one host; its robots.txt may ask for more.",
    )
    chromium_path: Path | None = Field(
        default=None,
        description="The Chromium or Chrome that renders pages; by default the one on the PATH.",
    )
    render_slots: int = Field(
        default=2,
        ge=1,
        le=64,
        description="Maximum number of pages that one worker renders at once, each by a Chromium of its own.",
    )
    render_timeout: Duration = Field(
        default=timedelta(seconds=30), description="How long rendering one page may take."
    )
    render_memory_mb: int = Field(
        default=1024,
        ge=256,
        le=65_536,
        description="Maximum memory that Chromium may take for one page, in MiB.",
    )
