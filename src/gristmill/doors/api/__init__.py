"""The REST door."""

from gristmill.doors.api.application import create, create_probes
from gristmill.doors.api.context import Context

__all__ = ["Context", "create", "create_probes"]
