"""A kind of connector: its name, the form of its configuration and credentials, and how it is opened.

A kind is added by a `Kind` in its own module and a line in `kinds.py`. The configuration is stored and shown, the
credentials are sealed and never shown: every secret is a `SecretStr` of the credentials' model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from gristmill.connectors.port import Connector
from gristmill.errors import Permanent
from gristmill.sources.url import normalise


def _normalise_base_url(url: str) -> str:
    try:
        return normalise(url).rstrip("/")
    except Permanent as error:
        raise ValueError(error.message) from None


# The address of a tool: http or https, without user, and without a slash at its end.
BaseUrl = Annotated[str, AfterValidator(_normalise_base_url)]


class ConnectorForm(BaseModel):
    """A configuration or credentials: camelCase outside, nothing unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


@dataclass(frozen=True)
class ConnectorLimits:
    """What this installation allows: private addresses, how long a request may wait for a limit by itself."""

    allow_private: bool
    max_wait: timedelta = timedelta(seconds=20)
    attachment_limit: int = 64 << 20


@dataclass(frozen=True)
class ConnectorKind:
    """A kind of connector. `open(config, credentials, surroundings)` gives a connector; it has to be closed."""

    name: str
    config: type[ConnectorForm]
    credentials: type[ConnectorForm]
    open: Callable[[Any, Any, ConnectorLimits], "OpenConnector"]
    checkpoint_version: int = 1  # raised when marks take another form: streams begin anew


class OpenConnector(Connector):
    """A connector that holds connections until it is closed."""

    async def close(self) -> None:
        """Let go of its connections."""
