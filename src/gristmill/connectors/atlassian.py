"""What Jira and Confluence have in common: Cloud or Data Center, credentials, and sets of users.

    *.atlassian.net, api.atlassian.com    Cloud: email address and API token
    any other address                     Server or Data Center: a personal access token, or user name and password
    `deployment`                          says so where the address doesn't

A set of users is accounts and groups. Groups stay groups in unions, so that access lists name them. In an intersection those
that both sides name stay groups, and the others become their members. A user that can't be looked up makes the set incomplete: then
only admins see what it guards. A group that can't be looked up lets no one see anything; in an intersection it, too, makes the set
incomplete.
"""

import base64
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr

from gristmill.connectors.port import Audience, BaseUrl, ConnectorForm, ToolGroup, ToolUser
from gristmill.errors import SourceGone, Unreadable

Deployment = Literal["cloud", "data_center"]


class AtlassianConfig(ConnectorForm):
    """Where the tool is."""

    base_url: BaseUrl = Field(description="The site, e.g. https://example.atlassian.net.")
    deployment: Deployment | None = Field(
        default=None, description="cloud or data_center, where the address doesn't say."
    )

    @property
    def is_cloud(self) -> bool:
        """Whether Atlassian runs it."""
        if self.deployment is not None:
            return self.deployment == "cloud"
        host = urlsplit(self.base_url).hostname or ""
        return host.endswith(".atlassian.net") or host == "api.atlassian.com"

    @property
    def is_gateway(self) -> bool:
        """Whether requests go through `api.atlassian.com/ex/TOOL/ID`: people open another address."""
        return self.is_cloud and urlsplit(self.base_url).path.startswith("/ex/")


class AtlassianCredentials(ConnectorForm):
    """An API token with the email address it belongs to (Cloud), or only a personal access token (Data Center)."""

    email: str | None = Field(
        default=None, description="The email address that the API token belongs to; none for Data Center."
    )
    token: SecretStr = Field(description="The token.")

    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        token = self.token.get_secret_value()
        if self.email is None:
            return {"Accept": "application/json", "Authorization": f"Bearer {token}"}
        pair = base64.b64encode(f"{self.email}:{token}".encode()).decode()
        return {"Accept": "application/json", "Authorization": f"Basic {pair}"}


@dataclass(frozen=True)
class AtlassianUser:
    """An account: its id, its name, and its email address where the tool shows it."""

    id: str
    name: str = ""
    email: str = ""
    is_active_person: bool = True  # not an app, and not closed

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "AtlassianUser":
        """From the JSON of either tool, on Cloud and Data Center."""
        account = data.get("accountId") or data.get("key") or data.get("userKey") or data.get("name")
        return cls(
            str(account or data.get("username") or ""),
            str(data.get("displayName") or data.get("publicName") or ""),
            str(data.get("emailAddress") or data.get("email") or "").lower(),
            data.get("accountType", "atlassian") != "app" and data.get("active", True) is not False,
        )


@dataclass(frozen=True)
class AtlassianGroup:
    """A group with its members; unknown ones if they can't be looked up."""

    id: str
    name: str
    members: "UserSet"

    @cached_property
    def tool_group(self) -> ToolGroup:
        """As access lists name it: with email addresses, and accounts without one."""
        group = ToolGroup.of_users(self.id, self.name, self.members.tool_users())
        return replace(group, complete=self.members.complete)


@dataclass(frozen=True)
class UserSet:
    """A set of accounts and groups, or everyone. Unless `complete`, some part of it is unknown."""

    accounts: Mapping[str, AtlassianUser] = field(default_factory=dict[str, AtlassianUser])
    everybody: bool = False
    complete: bool = True
    groups: Mapping[str, AtlassianGroup] = field(default_factory=dict[str, AtlassianGroup])

    @classmethod
    def from_users(cls, users: Iterable[AtlassianUser], *, complete: bool = True) -> "UserSet":
        """These accounts, without apps and closed accounts."""
        accounts = {person.id: person for person in users if person.id and person.is_active_person}
        return cls(accounts, complete=complete)

    def __or__(self, other: "UserSet") -> "UserSet":
        return UserSet(
            {**self.accounts, **other.accounts},
            self.everybody or other.everybody,
            self.complete and other.complete,
            {**self.groups, **other.groups},
        )

    def __and__(self, other: "UserSet") -> "UserSet":
        if self.everybody or other.everybody:
            limited = other if self.everybody else self
            return replace(limited, complete=self.complete and other.complete)
        common = {key: group for key, group in self.groups.items() if key in other.groups}
        left, right = self._without_groups(common), other._without_groups(common)
        accounts = {key: person for key, person in left.accounts.items() if key in right.accounts}
        return UserSet(accounts, complete=left.complete and right.complete, groups=common)

    def _without_groups(self, common: Collection[str]) -> "UserSet":
        """With the members of all groups instead of these, except for `common` ones, which are left out."""
        expanded = [group.members for key, group in self.groups.items() if key not in common]
        accounts = dict(self.accounts)
        for members in expanded:
            accounts.update(members.accounts)
        return UserSet(accounts, complete=self.complete and all(members.complete for members in expanded))

    def tool_users(self) -> list[ToolUser]:
        """Its accounts, without those of its groups, with their email addresses where they are known."""
        return [
            ToolUser(user.id, user.name, user.email if "@" in user.email else None)
            for user in self.accounts.values()
        ]

    def audience(self, key: str) -> Audience:
        """As an audience: email addresses, accounts without one, and groups."""
        if self.everybody:
            return Audience(key, everybody=True, complete=self.complete)
        audience = Audience.of_users(key, self.tool_users(), complete=self.complete)
        return replace(audience, tool_groups=[group.tool_group for group in self.groups.values()])


UNKNOWN = UserSet(complete=False)
EVERYBODY = UserSet(everybody=True)


class UserSetCache:
    """Looks up each user set once. One that can't be looked up is unknown, and hides what it guards; a group that can't be
    looked up hides what only it may see."""

    def __init__(self) -> None:
        self._sets: dict[tuple[str, ...], UserSet] = {}

    async def lookup(self, key: tuple[str, ...], fetch: Callable[[], Awaitable[UserSet]]) -> UserSet:
        """The set of this key."""
        if key not in self._sets:
            try:
                self._sets[key] = await fetch()
            except (SourceGone, Unreadable):
                self._sets[key] = UNKNOWN
        return self._sets[key]

    async def lookup_group(
        self, group_id: str, name: str, fetch_members: Callable[[], Awaitable[UserSet]]
    ) -> UserSet:
        """The set that consists of a group."""

        async def fetch() -> UserSet:
            try:
                members = await fetch_members()
            except (SourceGone, Unreadable):
                members = UNKNOWN
            return UserSet(groups={group_id: AtlassianGroup(group_id, name, members)})

        return await self.lookup(("group", group_id), fetch) if group_id else UNKNOWN
