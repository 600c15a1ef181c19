"""Who may see an issue: by the project's permission scheme, and by the issue's security level.

    browse     everyone that a grant of BROWSE_PROJECTS in the scheme names: anyone, groups, users, project roles, the lead,
               application roles
    level      for an issue with a security level, only those who are in that level too

    audience                                for
    project:{id}                            issues without a level
    project:{id}:level:{level}              issues with one

Not resolved, and therefore without access: users who see an issue only as its reporter or assignee or by one of its fields,
and customers of a service portal. Groups stay groups; of a level inside a scheme only those that both name. What Jira does not
return (the credentials may not read the scheme or a role) hides the issues. A group without its members hides what only it may see.
"""

from collections.abc import Mapping
from typing import Any

from gristmill.connectors.atlassian import EVERYBODY, UNKNOWN, UserSet, UserSetCache
from gristmill.connectors.jira.api import JiraApi
from gristmill.connectors.json_values import as_dict
from gristmill.connectors.port import Audience

_BROWSE = "BROWSE_PROJECTS"
# These depend on the issue: fewer people see it here than in Jira.
_BY_ISSUE = frozenset(
    ("reporter", "assignee", "userCustomField", "groupCustomField", "sd.customer.portal.only")
)


class JiraAccess:
    """Resolves audiences; looks up each group, role and account once."""

    def __init__(self, api: JiraApi) -> None:
        self._api = api
        self._cache = UserSetCache()

    async def audiences(self, project: Mapping[str, Any], keys: set[str]) -> list[Audience]:
        """The audiences of a project as they are now: its own, and those of the security levels in `keys`."""
        number = str(project.get("id"))
        browse = await self._cache.lookup(("project", number), lambda: self._browse_users(number, project))
        audiences = [browse.audience(f"project:{number}")]
        for key in sorted(keys):
            head, _, level = key.partition(":level:")
            if head == f"project:{number}" and level:
                level_users = await self._cache.lookup(
                    ("level", number, level), lambda level=level: self._level_users(number, project, level)
                )
                audiences.append((browse & level_users).audience(key))
        return audiences

    async def _browse_users(self, number: str, project: Mapping[str, Any]) -> UserSet:
        users = UserSet()
        for grant in await self._api.permission_grants(number):
            if grant.get("permission") == _BROWSE:
                users |= await self._holder_users(number, project, as_dict(grant.get("holder")))
        return users

    async def _level_users(self, number: str, project: Mapping[str, Any], level: str) -> UserSet:
        users = UserSet()
        for member in await self._api.level_members(level):
            users |= await self._holder_users(number, project, as_dict(member.get("holder")))
        return users

    async def _holder_users(self, number: str, project: Mapping[str, Any], holder: dict[str, Any]) -> UserSet:
        kind = str(holder.get("type"))
        value = str(holder.get("value") or holder.get("parameter") or "")
        name = str(holder.get("parameter") or value)
        match kind:
            case "anyone":
                return EVERYBODY
            case "applicationRole" if not value:
                return EVERYBODY  # everyone who can sign in
            case "applicationRole":
                return await self._cache.lookup(
                    ("application", value), lambda: self._application_users(value)
                )
            case "group":
                return await self._group_set(value if self._api.cloud else name, name)
            case "user":
                return await self._user_set(value)
            case "projectRole":
                return await self._cache.lookup(
                    ("role", number, value), lambda: self._role_users(number, value)
                )
            case "projectLead":
                lead = as_dict(project.get("lead"))
                return await self._user_set(str(lead.get("accountId" if self._api.cloud else "name") or ""))
            case _ if kind in _BY_ISSUE:
                return UserSet()
            case _:
                return UNKNOWN

    async def _role_users(self, number: str, role: str) -> UserSet:
        users = UserSet()
        for actor in await self._api.role_actors(number, role):
            group, user = as_dict(actor.get("actorGroup")), as_dict(actor.get("actorUser"))
            if group or str(actor.get("type")) == "atlassian-group-role-actor":
                group_id = str(group.get("groupId") or "") if self._api.cloud else ""
                name = str(group.get("name") or actor.get("name") or "")
                users |= await self._group_set(group_id or name, name)
            else:
                account = user.get("accountId") or user.get("name") or actor.get("name")
                users |= await self._user_set(str(account or ""))
        return users

    async def _application_users(self, key: str) -> UserSet:
        users = UserSet()
        for group in await self._api.application_groups(key):
            users |= await self._group_set(group, group)
        return users

    async def _group_set(self, group: str, name: str) -> UserSet:
        async def fetch_members() -> UserSet:
            return UserSet.from_users(await self._api.group_members(group))

        return await self._cache.lookup_group(group, name, fetch_members)

    async def _user_set(self, account: str) -> UserSet:
        async def fetch() -> UserSet:
            return UserSet.from_users([await self._api.user(account)])

        return await self._cache.lookup(("user", account), fetch) if account else UNKNOWN
