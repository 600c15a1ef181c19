"""Whom the permissions of a file in SharePoint or OneDrive name: people, groups, or the whole organisation."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gristmill.connectors.json_values import as_dict, as_list
from gristmill.connectors.port import Audience, ToolGroup

# How SharePoint names "Everyone" and "Everyone except external users".
_EVERYONE = ("c:0(.s|true", "c:0-.f|rolemanager|spo-grid-all-users")

# What SharePoint gives people on the way to a file that was shared with them: these levels read nothing.
_NO_ACCESS = frozenset(("sp.limited access", "sp.web-only limited access"))


@dataclass
class GrantedReaders:
    """Whom the permissions of a file name."""

    is_everyone: bool = False
    emails: set[str] = field(default_factory=set[str])
    users: dict[str, str] = field(default_factory=dict[str, str])
    groups: dict[str, str] = field(default_factory=dict[str, str])  # of Entra ID: names by id
    site_groups: set[str] = field(default_factory=set[str])

    @classmethod
    def of(cls, permissions: Sequence[dict[str, Any]]) -> "GrantedReaders":
        """The readers that permissions of Graph name."""
        readers = cls()
        for permission in permissions:
            roles = {str(role).lower() for role in as_list(permission.get("roles"))}
            if roles and roles <= _NO_ACCESS:
                continue
            if as_dict(permission.get("link")).get("scope") in ("anonymous", "organization"):
                readers.is_everyone = True
            for grant in (permission.get("grantedToV2"), *as_list(permission.get("grantedToIdentitiesV2"))):
                readers._add(as_dict(grant))
        return readers

    def _add(self, identity: dict[str, Any]) -> None:
        site_user, group = as_dict(identity.get("siteUser")), as_dict(identity.get("group"))
        user, site_group = as_dict(identity.get("user")), as_dict(identity.get("siteGroup"))
        login = str(site_user.get("loginName") or "")
        email = str(user.get("email") or site_user.get("email") or login.rpartition("|")[2]).lower()
        if login.startswith(_EVERYONE):
            self.is_everyone = True
        elif group.get("id"):
            self.groups[str(group["id"])] = str(group.get("displayName") or group["id"])
        elif "@" in email:
            self.emails.add(email)
        elif user.get("id"):
            self.users[str(user["id"])] = str(user.get("displayName") or user["id"])
        elif name := site_group.get("loginName") or site_group.get("displayName"):
            self.site_groups.add(str(name))

    def audience(self, *, everybody: bool, tool_groups: Sequence[ToolGroup]) -> Audience:
        """These readers, with a key that follows from them, but not from who is in the groups: `tool_groups` have their members."""
        groups = {*self.groups, *self.site_groups}
        contents = json.dumps([everybody, sorted(self.emails), sorted(self.users), sorted(groups)])
        key = f"readers:{hashlib.sha256(contents.encode()).hexdigest()[:24]}"
        return Audience(
            key,
            everybody,
            frozenset(self.emails),
            self.users,
            frozenset(groups),
            tool_groups=tool_groups,
        )
