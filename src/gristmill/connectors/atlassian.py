"""What Jira and Confluence have in common: Cloud or Data Center, how one signs in, and sets of people.

    *.atlassian.net, api.atlassian.com    Cloud: e-mail and API token
    any other address                     Server or Data Center: a personal access token alone, or user name and password
    `deployment`                          says so where the address doesn't tell

A set of people is kept by account, so that sets can be intersected; only what is left of it becomes e-mail addresses. Groups
are resolved to their members. Whoever can't be looked up makes the set incomplete, and then nobody but admins sees what it
guards.
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from pydantic import Field, SecretStr

from gristmill.connectors.port import Audience, BaseUrl, ConnectorForm
from gristmill.errors import Unreadable

Deployment = Literal["cloud", "data_center"]


class AtlassianConfig(ConnectorForm):
    """Where the tool is."""

    base_url: BaseUrl = Field(description="The site, e.g. https://example.atlassian.net.")
    deployment: Deployment | None = Field(
        default=None, description="cloud or data_center, where the address doesn't tell."
    )

    @property
    def is_cloud(self) -> bool:
        """Whether Atlassian runs it."""
        if self.deployment is not None:
            return self.deployment == "cloud"
        host = urlsplit(self.base_url).hostname or ""
        return host.endswith(".atlassian.net") or host == "api.atlassian.com"


class AtlassianCredentials(ConnectorForm):
    """An API token with the e-mail it belongs to (Cloud), or a personal access token alone (Data Center)."""

    email: str | None = Field(default=None, description="Whose API token it is; none for Data Center.")
    token: SecretStr = Field(description="The token.")

    def headers(self) -> dict[str, str]:
        """How one signs in."""
        token = self.token.get_secret_value()
        if self.email is None:
            return {"Authorization": f"Bearer {token}"}
        pair = base64.b64encode(f"{self.email}:{token}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}


@dataclass(frozen=True)
class AtlassianUser:
    """An account: its id, a name for people, and its address where the tool shows it."""

    id: str
    name: str = ""
    email: str = ""
    is_active_person: bool = True  # not a program's account, and not closed

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "AtlassianUser":
        """As both tools tell of accounts, on Cloud and elsewhere."""
        account = data.get("accountId") or data.get("key") or data.get("userKey") or data.get("name")
        return cls(
            str(account or data.get("username") or ""),
            str(data.get("displayName") or data.get("publicName") or ""),
            str(data.get("emailAddress") or data.get("email") or "").lower(),
            data.get("accountType", "atlassian") != "app" and data.get("active", True) is not False,
        )


@dataclass(frozen=True)
class UserSet:
    """A set of accounts, or everybody. Unless `complete`, some part of it is not known."""

    accounts: Mapping[str, AtlassianUser] = field(default_factory=dict[str, AtlassianUser])
    everybody: bool = False
    complete: bool = True

    @classmethod
    def from_users(cls, users: Iterable[AtlassianUser], *, complete: bool = True) -> "UserSet":
        """These, without programs and closed accounts."""
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
        """As the port has it: addresses, and accounts without one for the mapping by hand."""
        users = self.accounts.values()
        return Audience(
            key,
            everybody=self.everybody,
            emails=frozenset(person.email for person in users if "@" in person.email),
            users={person.id: person.name for person in users if "@" not in person.email},
            complete=self.complete,
        )


UNKNOWN = UserSet(complete=False)
EVERYBODY = UserSet(everybody=True)


def as_dict(value: object) -> dict[str, Any]:
    """A JSON object, or an empty one: fields that are missing are no errors."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """A JSON array, or an empty one."""
    return cast(list[Any], value) if isinstance(value, list) else []


def require_dict(value: object) -> dict[str, Any]:
    """A JSON object that must be one."""
    if not isinstance(value, dict):
        raise Unreadable("The tool did not answer as it is described.", code="connector_refused")
    return cast(dict[str, Any], value)
