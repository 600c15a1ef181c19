"""The REST API."""

from gristmill.server.api.activity import ActivityRecorder
from gristmill.server.api.application import create, create_probes
from gristmill.server.api.context import ApiContext

__all__ = ["ActivityRecorder", "ApiContext", "create", "create_probes"]
