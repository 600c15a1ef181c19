"""An instant to build values with."""

from datetime import UTC, datetime

NOW = datetime(2030, 1, 1, tzinfo=UTC)
