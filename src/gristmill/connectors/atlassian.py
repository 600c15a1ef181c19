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

from gristmill.connectors.connector import Audience
from gristmill.connectors.kind import BaseUrl, Form
from gristmill.errors import Unreadable

Deployment = Literal["cloud", "data_center"]


class AtlassianConfig(Form):
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


class AtlassianCredentials(Form):
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
class Person:
    """An account: its id, a name for people, and its address where the tool shows it."""

    id: str
    name: str = ""
    email: str = ""
    person: bool = True  # not a program's account, and not closed

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "Person":
        """As both tools tell of accounts, on Cloud and elsewhere."""
        account = told.get("accountId") or told.get("key") or told.get("userKey") or told.get("name")
        return cls(
            str(account or told.get("username") or ""),
            str(told.get("displayName") or told.get("publicName") or ""),
            str(told.get("emailAddress") or told.get("email") or "").lower(),
            told.get("accountType", "atlassian") != "app" and told.get("active", True) is not False,
        )


@dataclass(frozen=True)
class People:
    """A set of accounts, or everybody. Unless `complete`, some part of it is not known."""

    accounts: Mapping[str, Person] = field(default_factory=dict[str, Person])
    everybody: bool = False
    complete: bool = True

    @classmethod
    def of(cls, persons: Iterable[Person], *, complete: bool = True) -> "People":
        """These, without programs and closed accounts."""
        found = {person.id: person for person in persons if person.id and person.person}
        return cls(found, complete=complete)

    def __or__(self, other: "People") -> "People":
        return People(
            {**self.accounts, **other.accounts},
            self.everybody or other.everybody,
            self.complete and other.complete,
        )

    def __and__(self, other: "People") -> "People":
        complete = self.complete and other.complete
        if self.everybody or other.everybody:
            both = other if self.everybody else self
            return People(both.accounts, both.everybody, complete)
        held = {key: person for key, person in self.accounts.items() if key in other.accounts}
        return People(held, complete=complete)

    def audience(self, key: str) -> Audience:
        """As the port has it: addresses, and accounts without one for the mapping by hand."""
        persons = self.accounts.values()
        return Audience(
            key,
            everybody=self.everybody,
            emails=frozenset(person.email for person in persons if "@" in person.email),
            users={person.id: person.name for person in persons if "@" not in person.email},
            complete=self.complete,
        )


UNKNOWN = People(complete=False)
EVERYBODY = People(everybody=True)


def a_dict(told: object) -> dict[str, Any]:
    """A JSON object, or an empty one: fields that are missing are no errors."""
    return cast(dict[str, Any], told) if isinstance(told, dict) else {}


def a_list(told: object) -> list[Any]:
    """A JSON array, or an empty one."""
    return cast(list[Any], told) if isinstance(told, list) else []


def whole(told: object) -> dict[str, Any]:
    """A JSON object that must be one."""
    if not isinstance(told, dict):
        raise Unreadable("The tool did not answer as it is described.", code="connector_refused")
    return cast(dict[str, Any], told)
