"""Who may see an issue of Jira's: the project's permission scheme, and the issue's security level.

    browse     whoever one of the scheme's grants of BROWSE_PROJECTS names: anyone, groups, users, project roles, the lead,
               application roles
    level      and, for an issue with a security level, whoever is in that level too

    audience                                for
    project:{id}                            issues without a level
    project:{id}:level:{level}              issues with one

Not resolved, and so not let in: who sees an issue for being its reporter or assignee, or by one of its fields, and customers
of a service portal. What Jira does not tell (these credentials may not read the scheme, a role or a group) hides the issues.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from gristmill.connectors.atlassian import EVERYBODY, UNKNOWN, People, a_dict
from gristmill.connectors.connector import Audience
from gristmill.connectors.jira_api import JiraApi
from gristmill.errors import Gone, Unreadable

_BROWSE = "BROWSE_PROJECTS"
# Whom these name depends on the issue: fewer see it here than there.
_BY_ISSUE = frozenset(
    ("reporter", "assignee", "userCustomField", "groupCustomField", "sd.customer.portal.only")
)


class JiraAccess:
    """Resolves audiences, each group, role and account once."""

    def __init__(self, api: JiraApi) -> None:
        self._api = api
        self._known: dict[tuple[str, ...], People] = {}

    async def audiences(self, project: Mapping[str, Any], keys: set[str]) -> list[Audience]:
        """The audiences of a project that are named by `keys`, as they are now."""
        number = str(project.get("id"))
        browse = await self._once(("project", number), lambda: self._browse(number, project))
        found = [browse.audience(f"project:{number}")]
        for key in sorted(keys):
            head, _, level = key.partition(":level:")
            if head == f"project:{number}" and level:
                members = await self._once(
                    ("level", number, level), lambda level=level: self._level(number, project, level)
                )
                found.append((browse & members).audience(key))
        return found

    async def _browse(self, number: str, project: Mapping[str, Any]) -> People:
        people = People()
        for grant in await self._api.scheme(number):
            if grant.get("permission") == _BROWSE:
                people |= await self._holder(number, project, a_dict(grant.get("holder")))
        return people

    async def _level(self, number: str, project: Mapping[str, Any], level: str) -> People:
        people = People()
        for member in await self._api.level_members(level):
            people |= await self._holder(number, project, a_dict(member.get("holder")))
        return people

    async def _holder(self, number: str, project: Mapping[str, Any], holder: dict[str, Any]) -> People:
        kind = str(holder.get("type"))
        value = str(holder.get("value") or holder.get("parameter") or "")
        name = str(holder.get("parameter") or value)
        match kind:
            case "anyone":
                return EVERYBODY
            case "applicationRole" if not value:
                return EVERYBODY  # whoever can sign in
            case "applicationRole":
                return await self._once(("application", value), lambda: self._application(value))
            case "group":
                return await self._group(value if self._api.cloud else name)
            case "user":
                return await self._user(value)
            case "projectRole":
                return await self._once(("role", number, value), lambda: self._role(number, value))
            case "projectLead":
                lead = a_dict(project.get("lead"))
                return await self._user(str(lead.get("accountId" if self._api.cloud else "name") or ""))
            case _ if kind in _BY_ISSUE:
                return People()
            case _:
                return UNKNOWN

    async def _role(self, number: str, role: str) -> People:
        people = People()
        for actor in await self._api.role(number, role):
            group, user = a_dict(actor.get("actorGroup")), a_dict(actor.get("actorUser"))
            if group or str(actor.get("type")) == "atlassian-group-role-actor":
                named = str(group.get("groupId") or "") if self._api.cloud else ""
                people |= await self._group(named or str(group.get("name") or actor.get("name") or ""))
            else:
                account = user.get("accountId") or user.get("name") or actor.get("name")
                people |= await self._user(str(account or ""))
        return people

    async def _application(self, key: str) -> People:
        people = People()
        for group in await self._api.application_groups(key):
            people |= await self._group(group)
        return people

    async def _group(self, name: str) -> People:
        async def members() -> People:
            persons = await self._api.group(name)
            return People.of(persons)

        return await self._once(("group", name), members)

    async def _user(self, account: str) -> People:
        async def one() -> People:
            return People.of([await self._api.user(account)])

        return await self._once(("user", account), one) if account else UNKNOWN

    async def _once(self, key: tuple[str, ...], ask: Callable[[], Awaitable[People]]) -> People:
        """What was asked before is known; what can't be asked is not, and hides."""
        if key not in self._known:
            try:
                self._known[key] = await ask()
            except (Gone, Unreadable):
                self._known[key] = UNKNOWN
        return self._known[key]
