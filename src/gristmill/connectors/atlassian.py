"""What Jira and Confluence have in common: Cloud or Data Center, credentials, and sets of users.

    *.atlassian.net, api.atlassian.com    Cloud: email address and API token
    any other address                     Server or Data Center: a personal access token, or user name and password
    `deployment`                          says so where the address doesn't

A set of users is kept by account, so that sets can be intersected; the result becomes email addresses. Groups are resolved
to their members. A user or group that can't be looked up makes the set incomplete: then only admins see what it guards.
"""

import base64
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr

from gristmill.connectors.port import Audience, BaseUrl, ConnectorForm, ToolUser
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
class UserSet:
    """A set of accounts, or everyone. Unless `complete`, some part of it is unknown."""

    accounts: Mapping[str, AtlassianUser] = field(default_factory=dict[str, AtlassianUser])
    everybody: bool = False
    complete: bool = True

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
        )

    def __and__(self, other: "UserSet") -> "UserSet":
        complete = self.complete and other.complete
        if self.everybody or other.everybody:
            limited = other if self.everybody else self
            return UserSet(limited.accounts, limited.everybody, complete)
        common = {key: person for key, person in self.accounts.items() if key in other.accounts}
        return UserSet(common, complete=complete)

    def audience(self, key: str) -> Audience:
        """As an audience: email addresses, and accounts without one."""
        if self.everybody and not self.accounts:
            return Audience(key, everybody=True, complete=self.complete)
        users = [
            ToolUser(user.id, user.name, user.email if "@" in user.email else None)
            for user in self.accounts.values()
        ]
        return replace(Audience.of_users(key, users, complete=self.complete), everybody=self.everybody)


UNKNOWN = UserSet(complete=False)
EVERYBODY = UserSet(everybody=True)


class UserSetCache:
    """Looks up each user set once. One that can't be looked up is unknown, and hides what it guards."""

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
