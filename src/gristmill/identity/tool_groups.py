"""Groups of the tools that connectors follow: `tool_group:{id}` in access lists. Connectors write them; here they are looked up.

An id belongs to one group of one tool, and is not chosen by the tool. So a group of another tool, organisation or identity provider
never matches it, and no key, token or header can claim it: who belongs to it follows from an address alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from gristmill.db import Tx
from gristmill.identity.organisation import OrgId
from gristmill.identity.store import queries


@dataclass(frozen=True)
class ToolGroupName:
    """The name of a group, and of the connector to its tool; None if that was deleted and its documents were not."""

    id: UUID
    name: str
    connector: str | None

    @property
    def full_name(self) -> str:
        """Its name, with that of the connector where there is one."""
        return self.name if self.connector is None else f"{self.name} ({self.connector})"


async def find_tool_groups(tx: Tx, org: OrgId, email: str) -> list[str]:
    """The groups of an organisation's tools that contain whoever has this address, also by accounts that are mapped to it."""
    return await queries.values(tx, "find_tool_groups", org=org, email=email)


async def tool_group_names(tx: Tx, org: OrgId, ids: Sequence[UUID]) -> list[ToolGroupName]:
    """The names of those of these groups that the organisation has."""
    return await queries.many(tx, ToolGroupName, "tool_group_names", org=org, ids=list(ids))
