"""Who may see a page of Confluence's: whom its space is open to, and whom the page and what it lies in are restricted to.

    audience                             for
    space:{id}                           what is not restricted
    space:{id}:in:{id}.{id}              what lies in these restricted pages, or is one: whoever all of them let in

Comments are seen by who sees their page. What Confluence does not tell hides: a space whose permissions these credentials may
not read, a group without members told, a role instead of a group.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from gristmill.connectors.atlassian import EVERYBODY, UNKNOWN, People, Person, a_dict, a_list
from gristmill.connectors.confluence_api import ConfluenceApi
from gristmill.connectors.connector import Audience
from gristmill.errors import Gone, Unreadable

_INLINE = 25  # of users or groups that a search tells; where there are as many, the page is asked


class ConfluenceAccess:
    """Resolves audiences, each space, page, group and account once."""

    def __init__(self, api: ConfluenceApi) -> None:
        self._api = api
        self._known: dict[tuple[str, ...], People] = {}
        self._restricted: dict[
            str, People | None
        ] = {}  # by content: whom it is for, None when for all of its space

    async def key(self, space: str, chain: Sequence[str]) -> str:
        """The audience of something that lies in `chain`, itself included."""
        held = [number for number in chain if await self.restricted(number) is not None]
        return f"space:{space}:in:{'.'.join(sorted(held))}" if held else f"space:{space}"

    async def audience(self, space: Mapping[str, Any], key: str) -> Audience:
        """Whom a key means."""
        people = await self._once(("space", str(space["id"])), lambda: self._space(space))
        for number in filter(None, key.partition(":in:")[2].split(".")):
            let_in = await self.restricted(number)
            people = people if let_in is None else people & let_in
        return people.audience(key)

    async def restricted(self, number: str) -> People | None:
        """Whom a page is for; None when it is not restricted."""
        if number not in self._restricted:
            try:
                users, groups = await self._api.restrictions(number)
                self._restricted[number] = await self._people(users, groups)
            except (Gone, Unreadable):
                self._restricted[number] = UNKNOWN
        return self._restricted[number]

    async def learn(self, content: Mapping[str, Any]) -> None:
        """Take a page's restrictions from a search that told them; ask when it told only some."""
        number = str(content.get("id"))
        read = a_dict(a_dict(content.get("restrictions")).get("read"))
        held = a_dict(read.get("restrictions"))
        if "user" not in held or "group" not in held:
            return
        users, groups = (a_list(a_dict(held[name]).get("results")) for name in ("user", "group"))
        if max(len(users), len(groups)) < _INLINE:
            self._restricted[number] = await self._people(users, groups)

    async def _people(self, users: Sequence[Any], groups: Sequence[Any]) -> People | None:
        if not users and not groups:
            return None
        people = People()
        for told in users:
            people |= await self._person(Person.of(a_dict(told)))
        for told in groups:
            group = a_dict(told)
            people |= await self._group(str(group.get("id" if self._api.cloud else "name") or ""))
        return people

    async def _space(self, space: Mapping[str, Any]) -> People:
        people = People()
        for subject in await self._api.space_permissions(space):
            match str(subject.get("type")):
                case "user" if subject.get("person"):
                    people |= await self._person(Person.of(a_dict(subject["person"])))
                case "user":
                    people |= await self._person(Person(str(subject.get("id"))))
                case "group":
                    people |= await self._group(str(subject.get("id")))
                case "anonymous":
                    people |= EVERYBODY
                case _:
                    people |= UNKNOWN
        return people

    async def _person(self, person: Person) -> People:
        """With the address, where Confluence shows it to somebody who asks for the account."""
        if not person.id:
            return UNKNOWN
        if person.email or not self._api.cloud:
            return People.of([person])

        async def ask() -> People:
            return People.of([await self._api.user(person.id)])

        return await self._once(("user", person.id), ask)

    async def _group(self, group: str) -> People:
        async def members() -> People:
            people = People()
            for person in await self._api.group(group):
                people |= await self._person(person) if person.person else People()
            return people

        return await self._once(("group", group), members) if group else UNKNOWN

    async def _once(self, key: tuple[str, ...], ask: Callable[[], Awaitable[People]]) -> People:
        if key not in self._known:
            try:
                self._known[key] = await ask()
            except (Gone, Unreadable):
                self._known[key] = UNKNOWN
        return self._known[key]
