"""The REST door."""

from gristmill.doors.api.application import create
from gristmill.doors.api.context import Context

__all__ = ["Context", "create"]
