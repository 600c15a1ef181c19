"""Who may see a page: by the permissions of its space, and by the restrictions of the page and its ancestors.

    audience                             for
    space:{id}                           documents without restrictions
    space:{id}:in:{id}.{id}              these restricted pages and everything below them: users that all of them allow

A comment is visible to those who see its page. Groups that a space or a restriction names stay groups; of a restricted page
inside a space only those that both name. What Confluence does not return hides documents: permissions of a space that the
credentials may not read, a role instead of a group. A group without its members hides what only it may see.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gristmill.connectors.atlassian import EVERYBODY, UNKNOWN, AtlassianUser, UserSet, UserSetCache
from gristmill.connectors.confluence.api import ConfluenceApi
from gristmill.connectors.json_values import as_dict, as_list
from gristmill.connectors.port import Audience
from gristmill.errors import SourceGone, Unreadable

RESTRICTIONS_EXPAND = "restrictions.read.restrictions.user,restrictions.read.restrictions.group"
_INLINE_LIMIT = 25  # users or groups that a search returns; where there are as many, the page is asked


class ConfluenceAccess:
    """Resolves audiences; looks up each space, page, group and account once."""

    def __init__(self, api: ConfluenceApi) -> None:
        self._api = api
        self._cache = UserSetCache()
        self._restrictions: dict[str, UserSet | None] = {}  # by content id; None when it is not restricted

    async def audience_key(self, space: str, chain: Sequence[str]) -> str:
        """The audience of a document whose page and ancestors are `chain`."""
        restricted = [number for number in chain if await self.fetch_restriction(number) is not None]
        return f"space:{space}:in:{'.'.join(sorted(restricted))}" if restricted else f"space:{space}"

    async def audience(self, space: Mapping[str, Any], key: str) -> Audience:
        """The users of an audience."""
        people = await self._cache.lookup(("space", str(space["id"])), lambda: self._space_readers(space))
        for number in filter(None, key.partition(":in:")[2].split(".")):
            allowed = await self.fetch_restriction(number)
            people = people if allowed is None else people & allowed
        return people.audience(key)

    async def fetch_restriction(self, number: str) -> UserSet | None:
        """The users that a page is restricted to; None when it is not restricted."""
        if number not in self._restrictions:
            try:
                users, groups = await self._api.restrictions(number)
                self._restrictions[number] = await self._resolve_users(users, groups)
            except (SourceGone, Unreadable):
                self._restrictions[number] = UNKNOWN
        return self._restrictions[number]

    def close(self, number: str) -> None:
        """Let only admins see a page, and what is below it: Confluence does not say where it is."""
        self._restrictions[number] = UNKNOWN

    async def load_restrictions(self, numbers: Iterable[str]) -> None:
        """Look up the restrictions of many pages with few requests. What a search doesn't return is looked up when needed."""
        unknown = sorted({number for number in numbers if number not in self._restrictions})
        try:
            contents = await self._api.search_ids(unknown, RESTRICTIONS_EXPAND)
        except (SourceGone, Unreadable):
            return
        for content in contents.values():
            await self.cache_restrictions(content)

    async def cache_restrictions(self, content: Mapping[str, Any]) -> None:
        """Take a page's restrictions from a search result, if that has all of them."""
        number = str(content.get("id"))
        read = as_dict(as_dict(content.get("restrictions")).get("read"))
        restrictions = as_dict(read.get("restrictions"))
        if "user" not in restrictions or "group" not in restrictions:
            return
        results = [as_dict(restrictions[name]).get("results") for name in ("user", "group")]
        if not all(isinstance(entries, list) for entries in results):
            return
        users, groups = map(as_list, results)
        if max(len(users), len(groups)) < _INLINE_LIMIT:
            self._restrictions[number] = await self._resolve_users(users, groups)

    async def _resolve_users(self, users: Sequence[Any], groups: Sequence[Any]) -> UserSet | None:
        if not users and not groups:
            return None
        people = UserSet()
        for entry in users:
            people |= await self._resolve_user(AtlassianUser.from_json(as_dict(entry)))
        for entry in groups:
            group = as_dict(entry)
            group_id = str(group.get("id" if self._api.cloud else "name") or "")
            people |= await self._group_set(group_id, str(group.get("name") or group_id))
        return people

    async def _space_readers(self, space: Mapping[str, Any]) -> UserSet:
        people = UserSet()
        for subject in await self._api.space_permissions(space):
            match str(subject.get("type")):
                case "user" if subject.get("person"):
                    people |= await self._resolve_user(AtlassianUser.from_json(as_dict(subject["person"])))
                case "user":
                    people |= await self._resolve_user(AtlassianUser(str(subject.get("id"))))
                case "group":
                    people |= await self._group_set(str(subject.get("id") or ""), str(subject.get("id")))
                case "anonymous":
                    people |= EVERYBODY
                case _:
                    people |= UNKNOWN
        return people

    async def _resolve_user(self, user: AtlassianUser) -> UserSet:
        """The account with its email address, which Confluence may return only with the account itself."""
        if not user.id:
            return UNKNOWN
        if user.email or not self._api.cloud:
            return UserSet.from_users([user])

        async def fetch() -> UserSet:
            return UserSet.from_users([await self._api.user(user.id)])

        return await self._cache.lookup(("user", user.id), fetch)

    async def _group_set(self, group: str, name: str) -> UserSet:
        async def fetch_members() -> UserSet:
            members = [user for user in await self._api.group(group) if user.is_active_person]
            accounts: dict[str, AtlassianUser] = {}
            complete = True
            for user in members:
                resolved = await self._resolve_user(user)
                accounts.update(resolved.accounts)
                complete = complete and resolved.complete
            return UserSet(accounts, complete=complete)

        return await self._cache.lookup_group(group, name, fetch_members)
