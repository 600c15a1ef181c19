"""The REST door."""

from gristmill.doors.api.application import create, create_probes
from gristmill.doors.api.context import ApiContext

__all__ = ["ApiContext", "create", "create_probes"]
