"""The REST API."""

from gristmill.server.api.application import create, create_probes
from gristmill.server.api.context import ApiContext

__all__ = ["ApiContext", "create", "create_probes"]
